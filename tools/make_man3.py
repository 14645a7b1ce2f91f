#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the manual pages, section 3, from the comments of the public headers: one per function
(shoal_allreduce.3) and one per header (shoal_train.h.3) that lists its functions.

    tools/make_man3.py --out build/release/man3

What a function's comment says of @param and @return becomes sections of its own, and the types that
it takes stand below as the header defines them. The same headers give the same bytes."""

import argparse
import dataclasses
import glob
import os
import re
import shutil
import sys
import textwrap

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_man  # noqa: E402
from make_man import ROOT, roff, section, verbatim  # noqa: E402

COMMENT = re.compile(r"/\*\*?(.*?)\*/", re.S)
ITEM = re.compile(
    r"(?P<comment>/\*\*(?:(?!\*/).)*\*/)?\s*"
    r"(?:(?P<function>^SHOAL_API\b[^;]*;)"
    r"|(?P<type>^typedef (?:struct|enum|union) \w+ \{.*?^\} \w+;)"
    r"|(?P<enum>^enum \{.*?^\};))",
    re.S | re.M,
)


@dataclasses.dataclass
class Function:
    """One function of a header."""

    name: str
    prototype: str
    about: str  # its comment without stars; that of the item before it where it has none
    types: list  # definitions that its prototype names


@dataclasses.dataclass
class Header:
    """What a public header says."""

    name: str  # shoal/train.h
    about: str
    functions: list


def plain(comment):
    """The text of a comment: no stars, no common indentation."""
    body = comment.strip()[2:].lstrip("*")
    body = body[:-2] if body.endswith("*/") else body
    lines = [re.sub(r"^\s*\* ?", "", line) for line in body.splitlines()]
    return "\n".join([lines[0].strip(), *lines[1:]]).strip() if lines else ""


def prototype_of(text):
    text = re.sub(r"\b(SHOAL_API|SHOAL_MUST_USE|SHOAL_PRINTF\([^)]*\))\s*", "", text)
    return re.sub(r"\s+", " ", text).strip()


def read_header(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    comments = [plain(match.group(0)) for match in COMMENT.finditer(text)]
    about = next(c for c in comments if not c.startswith("SPDX"))
    types, functions, last = {}, [], ""
    for match in ITEM.finditer(text):
        said = plain(match.group("comment")) if match.group("comment") else ""
        if match.group("function"):
            prototype = prototype_of(match.group("function"))
            name = re.search(r"(\w+)\(", prototype).group(1)
            functions.append(Function(name, prototype, said or last, []))
        elif match.group("type"):
            types[re.search(r"(\w+);$", match.group("type")).group(1)] = match.group("type")
        last = said or last
    for function in functions:
        used = re.findall(r"\bshoal_\w+", function.prototype)
        function.types = [types[name] for name in dict.fromkeys(used) if name in types]
    return Header(f"shoal/{os.path.basename(path)}", about, functions)


def parts_of(about):
    """(description, [(parameter, text)], what it returns) of a comment."""
    text, *tags = re.split(r"(?:^|(?<=\s))@(?=param\b|return\b)", about)
    params, returns = [], ""
    for tag in tags:
        words = re.sub(r"\s+", " ", tag).strip()
        if words.startswith("return"):
            returns = words[len("return") :].strip()
        else:
            _, name, *rest = words.split(" ", 2)
            params.append((name, rest[0] if rest else ""))
    return text.strip(), params, returns


def paragraphs(text):
    """Prose as paragraphs, what is indented as it stands."""
    out = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.splitlines()
        if lines and all(line.startswith("    ") for line in lines):
            out += verbatim(textwrap.dedent(block).splitlines())
        elif lines:
            out += [".PP", roff(" ".join(line.strip() for line in lines))]
    return out


def first_sentence(text, otherwise):
    line = re.split(r"(?<=[.:;])\s", re.sub(r"\s+", " ", text).strip(), maxsplit=1)[0]
    line = line.rstrip(".:;") or otherwise
    return line if len(line) <= 160 else line[:157] + "..."


def head(name, facts):
    return (
        f'.TH {roff(name.upper())} 3 {facts["date"]} "Shoal {facts["version"]}" "Library Functions"'
    )


def function_page(function, header, facts):
    text, params, returns = parts_of(function.about)
    see = [f.name for f in header.functions if f.name != function.name]
    others = ", ".join(f"\\fB{roff(o)}\\fR(3)" for o in [*see, header.name.split("/")[1]])
    lines = [head(function.name, facts)]
    lines += section(
        "NAME", [f"{roff(function.name)} \\- {roff(first_sentence(text, header.name))}"]
    )
    synopsis = [".nf", f"#include <{roff(header.name)}>", ".PP"]
    wrapped = textwrap.wrap(function.prototype, 76, subsequent_indent="    ")
    lines += section("SYNOPSIS", synopsis + [roff(line) for line in wrapped] + [".fi"])
    lines += section("DESCRIPTION", paragraphs(text))
    told = [line for n, t in params for line in (".TP", f"\\fI{roff(n)}\\fR", roff(t) or "\\&")]
    lines += section("PARAMETERS", told)
    lines += section("RETURN VALUE", [roff(returns)] if returns else [])
    shown = [line for type_ in function.types for line in verbatim(type_.splitlines())]
    lines += section("TYPES", shown) + section("SEE ALSO", [others])
    return "\n".join(['.\\" Made by tools/make_man3.py from the headers.', *lines]) + "\n"


def header_page(header, facts):
    name = header.name.split("/")[1]
    lines = [head(name, facts)]
    title = first_sentence(header.about, header.name)
    lines += section("NAME", [f"{roff(name)} \\- {roff(title)}"])
    lines += section("SYNOPSIS", [f"#include <{roff(header.name)}>"])
    lines += section("DESCRIPTION", paragraphs(header.about))
    rows = []
    for function in header.functions:
        text = first_sentence(parts_of(function.about)[0], "")
        rows += [".TP", f"\\fB{roff(function.name)}\\fR(3)", roff(text) or "\\&"]
    lines += section("FUNCTIONS", rows)
    return "\n".join(['.\\" Made by tools/make_man3.py from the headers.', *lines]) + "\n"


def page_name(header):
    """shoal_train.h.3; shoal.h is shoal.h.3."""
    name = header.name.split("/")[1]
    return f"{name}.3" if name == "shoal.h" else f"shoal_{name}.3"


def pages(facts):
    made = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "include", "shoal", "*.h"))):
        header = read_header(path)
        made[page_name(header)] = header_page(header, facts)
        for function in header.functions:
            made[f"{function.name}.3"] = function_page(function, header, facts)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--out", required=True, help="folder for the pages; emptied first")
    options = parser.parse_args()
    with open(os.path.join(ROOT, "include", "shoal", "version.h"), encoding="utf-8") as file:
        version = re.search(r'SHOAL_VERSION_STRING "(.*)"', file.read()).group(1)
    made = pages({"version": version, "date": make_man.page_date()})
    shutil.rmtree(options.out, ignore_errors=True)
    os.makedirs(options.out)
    for name, text in made.items():
        with open(os.path.join(options.out, name), "w", encoding="ascii") as file:
            file.write(text)


if __name__ == "__main__":
    main()
