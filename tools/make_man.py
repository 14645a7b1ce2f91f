#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the manual pages, section 1, from what the command says with --help: shoal.1, a page per
verb (shoal-train.1), and one for each kind of those that have several (shoal-bench-allreduce.1).

    tools/make_man.py --command build/release/shoal --out build/release/man

The same command gives the same bytes: the pages' date is that of debian/changelog, or
SOURCE_DATE_EPOCH."""

import argparse
import dataclasses
import datetime
import email.utils
import os
import re
import shutil
import subprocess
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KINDS = {  # verbs whose kinds have options of their own
    "bench": ("allreduce", "codec", "circulant"),
    "data": ("speech", "text", "clicks", "svmlight"),
}
DROPPED = "Mandatory or optional arguments"
ROW = re.compile(r"^  (?!shoal )(\w+) +(\S.*)$")


@dataclasses.dataclass
class Help:
    """One --help, taken apart: paragraphs are lists of lines."""

    synopsis: list
    about: list  # paragraphs
    rows: list  # (verb or kind, what it does)
    options: list  # (heading or "", [(option, text)])
    examples: list  # paragraphs
    notes: list  # paragraphs


def said(command, *words):
    """What the command prints with --help, as argp formats it when nobody asked otherwise."""
    env = {key: value for key, value in os.environ.items() if key != "ARGP_HELP_FMT"}
    done = subprocess.run(
        [*command, *words, "--help"], capture_output=True, text=True, check=False, env=env
    )
    if done.returncode != 0 or not done.stdout.startswith("Usage:"):
        sys.exit(f"make_man: {' '.join([*command, *words])} --help: {done.stderr or done.stdout}")
    return done.stdout


def paragraphs(text):
    return [block.splitlines() for block in re.split(r"\n\s*\n", text.strip("\n")) if block.strip()]


def option_groups(blocks):
    """[(heading, [(option, text)])] of the blocks that list options."""
    groups = []
    for block in blocks:
        heading, rows = "", []
        for line in block:
            option = re.match(r"^ {2,6}(-\S.*?)(?: {2,}(\S.*))?$", line)
            if option:
                rows.append([option.group(1), option.group(2) or ""])
            elif line.startswith(" " * 20) and rows:
                rows[-1][1] = f"{rows[-1][1]} {line.strip()}".strip()
            else:
                heading = line.strip().rstrip(":")
        groups.append((heading, rows))
    return groups


def split_tail(blocks):
    """(examples, notes): from the first example to the last indented paragraph behind it."""
    first = next((i for i, b in enumerate(blocks) if b[0].startswith("Example")), len(blocks))
    last = first
    for i in range(first, len(blocks)):
        if any(line.startswith(" ") for line in blocks[i]):
            last = i
    return blocks[first : last + 1], blocks[:first] + blocks[last + 1 :]


def take_apart(text, words):
    head, *blocks = paragraphs(text)
    # The usage is the first line and those that argp puts below it ("  or:  ...").
    lines = [line for line in head if line.startswith(("Usage:", "  or:"))]
    synopsis = [re.sub(r"^\s*(Usage|or):\s*", "", line).split(";")[0].strip() for line in lines]
    name = " ".join(words)
    synopsis = [s if s.startswith("shoal") else f"{name} {s.split(' ', 1)[1]}" for s in synopsis]
    about = head[len(lines) :]
    first = next((i for i, line in enumerate(about) if line.startswith("Example")), len(about))
    blocks = ([about[first:]] if about[first:] else []) + blocks
    about = about[:first]
    # argp's own words end the options, or the example does.
    ends = (i for i, block in enumerate(blocks) if block[0].startswith((DROPPED, "Example")))
    end = next(ends, len(blocks))
    options = option_groups(blocks[:end])
    options, rows = [group for group in options if group[1]], []
    tail = [block for block in blocks[end:] if not block[0].startswith(DROPPED)]
    if not options:  # what lists verbs or kinds
        every = [line for block in [about, *blocks] for line in block]
        rows = [match.groups() for match in map(ROW.match, every) if match]
        about = [line for line in about if not ROW.match(line)]
        tail = [block for block in blocks if not ROW.match(block[0])]
    examples, notes = split_tail(tail)
    return Help(synopsis, [about] if about else [], rows, options, examples, notes)


def roff(text):
    """Text for roff: its special characters as themselves, `code` in bold."""
    for plain, escaped in (("\\", "\\e"), ("-", "\\-"), ("^", "\\(ha"), ("~", "\\(ti")):
        text = text.replace(plain, escaped)
    text = text.replace("'", "\\(aq").replace('"', "\\(dq")
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text).replace("`", "\\(ga")
    return "\\&" + text if text.startswith(".") else text


def option_line(option):
    """-b, --batch=N: names bold, what is to be filled in slanted."""
    parts = []
    for part in option.split(", "):
        name, equals, value = part.partition("=")
        if name.endswith("["):  # --http[=HOST:PORT]: the value may be left out
            parts.append(f"\\fB{roff(name[:-1])}\\fR[={chr(92)}fI{roff(value[:-1])}\\fR]")
            continue
        parts.append(f"\\fB{roff(name)}\\fR" + (f"={chr(92)}fI{roff(value)}\\fR" if equals else ""))
    return ", ".join(parts)


def verbatim(lines):
    return [".PP", ".in +4n", ".nf", *[roff(line) or "\\&" for line in lines], ".fi", ".in"]


def prose(block):
    """A paragraph as text; tables and commands, which are indented, as they stand."""
    first = next((i for i, line in enumerate(block) if line.startswith(" ")), len(block))
    out = [".PP", roff(" ".join(block[:first]))] if first else []
    rest = textwrap.dedent("\n".join(block[first:])).splitlines()
    return out + (verbatim(rest) if rest else [])


def example(block):
    match = re.match(r"Examples?(: |, |:$)", block[0])
    if not match:
        return prose(block)
    rest = block[0][match.end() :]
    if not rest.startswith("shoal"):
        first = rest[:1].upper() + rest[1:]
        return prose([line for line in [first] + block[1:] if line])
    indent = " " * match.end()
    return verbatim(textwrap.dedent("\n".join([indent + rest] + block[1:])).splitlines())


def section(title, lines):
    return [f".SH {title}", *(lines[1:] if lines[:1] == [".PP"] else lines)] if lines else []


def flat(parts):
    return [line for part in parts for line in part]


def page(words, title, help_, exits, others, facts):
    """The text of one page. words: shoal train; others: pages to see."""
    name = "-".join(words)
    rows = flat([[".TP", f"\\fB{roff(row)}\\fR", roff(text)] for row, text in help_.rows])
    options = []
    for heading, listed in help_.options:
        options += [f".SS {roff(heading)}"] if heading else []
        options += flat([[".TP", option_line(option), roff(text)] for option, text in listed])
    synopsis = []
    for line in help_.synopsis:
        known, rest = line[: len(" ".join(words))], line[len(" ".join(words)) :]
        synopsis += ([".br"] if synopsis else []) + [f"\\fB{roff(known)}\\fR{roff(rest)}"]
    see = ", ".join(f"\\fB{roff(other)}\\fR(1)" for other in others)
    lines = [
        f'.TH {roff(name.upper())} 1 {facts["date"]} "Shoal {facts["version"]}" "User Commands"'
    ]
    lines += section("NAME", [f"{roff(name)} \\- {roff(title)}"])
    lines += section("SYNOPSIS", synopsis)
    lines += section("DESCRIPTION", flat(map(prose, help_.about)) + rows)
    lines += section("OPTIONS", options)
    lines += section("EXAMPLES", flat(map(example, help_.examples)))
    lines += section("NOTES", flat(map(prose, help_.notes)))
    status = flat([[".TP", code, roff(text)] for code, text in exits])
    lines += section("EXIT STATUS", status) + section("SEE ALSO", [see])
    return "\n".join(['.\\" Made by tools/make_man.py from --help.', *lines]) + "\n"


def page_date():
    """The date of all pages."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch:
        date = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc)
    else:
        with open(os.path.join(ROOT, "debian", "changelog"), encoding="utf-8") as file:
            signed = re.search(r"^ -- .*>  (.*)$", file.read(), re.M).group(1)
        date = email.utils.parsedate_to_datetime(signed).astimezone(datetime.timezone.utc)
    return date.strftime("%Y-%m-%d")


def facts_of(command):
    """Version and date of all pages."""
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    return {"version": version.stdout.split()[1], "date": page_date()}


def pages(command):
    """{file: text} of all pages."""
    facts, top = facts_of(command), take_apart(said(command), ["shoal"])
    codes = next(line for block in top.notes for line in block if line.startswith("Exit codes: "))
    exits = [code.split(" ", 1) for code in codes[len("Exit codes: ") :].rstrip(".").split(", ")]
    top.notes = [[line for line in block if line != codes] for block in top.notes]
    verbs = [verb for verb, _ in top.rows]
    made = {
        "shoal.1": page(
            ["shoal"],
            top.about[0][0].rstrip("."),
            top,
            exits,
            [f"shoal-{verb}" for verb in verbs],
            facts,
        )
    }
    for verb, title in top.rows:
        help_ = take_apart(said(command, verb), ["shoal", verb])
        kinds = KINDS.get(verb, ())
        below = [f"shoal-{verb}-{kind}" for kind in kinds]
        made[f"shoal-{verb}.1"] = page(
            ["shoal", verb], title, help_, exits, ["shoal", *below], facts
        )
        for kind in kinds:
            words = ["shoal", verb, kind]
            help_ = take_apart(said(command, *words[1:]), words)
            help_.synopsis = [
                re.sub(rf"^shoal {verb} (\[OPTION\.\.\.\]) {kind}", rf"{' '.join(words)} \1", line)
                for line in help_.synopsis
            ]
            first = " ".join(help_.about[0]).split(". ")[0].rstrip(".")
            title = first[0].lower() + first[1:]
            others = ["shoal", f"shoal-{verb}"]
            made[f"shoal-{verb}-{kind}.1"] = page(words, title, help_, exits, others, facts)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--command", required=True, nargs="+",
                        help="the shoal to ask, behind the emulator that runs it, if any")
    parser.add_argument("--out", required=True, help="folder for the pages; emptied first")
    options = parser.parse_args()
    made = pages([*options.command[:-1], os.path.abspath(options.command[-1])])
    shutil.rmtree(options.out, ignore_errors=True)
    os.makedirs(options.out)
    for name, text in made.items():
        with open(os.path.join(options.out, name), "w", encoding="ascii") as file:
            file.write(text)


if __name__ == "__main__":
    main()
