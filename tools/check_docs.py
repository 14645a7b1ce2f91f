#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the commands that README.md and docs/*.md show, and compare what they show as output.

    tools/check_docs.py --tags                 is every block of commands tagged? (runs nothing)
    tools/check_docs.py [--page PART]          run the blocks tagged `run`

The line before a block of commands (fenced, or indented by four blanks) is an HTML comment:

    <!-- run -->                               the block is run by bash -e
    <!-- run; as: --epochs 3 => --steps 4 -->  the same with words replaced: seconds, not minutes
    <!-- run; before: shoal data ... -->       something that the block presumes, run before it
    <!-- run; needs: lab -->                   skipped where namespaces are not allowed
    <!-- run; needs: torch -->                 skipped where Debian's Python has no PyTorch
    <!-- run; exit: 5 -->                      it is to end with that code
    <!-- not run: why -->                      what no single machine can run

and the line before a block that shows what the block above it prints:

    <!-- prints -->                            every line of it, in this order, figures aside
    <!-- prints; by: shoal ... -->             the same of what this command prints

Blocks of one page run in one folder, in order. The last line is "N passed, N failed, N skipped"."""

import argparse
import dataclasses
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMANDS = (
    "shoal|make|cmake|ctest|cc|gcc|pip|pip3|python3?|torchrun|mpirun|srun|sbatch|kubectl|man|cd|"
    r"\S*build/(?:release|dev)/\S+|innet/\S+|bench/\S+|tools/\S+|\.ci/run|examples/\S+"
)
COMMAND = re.compile(rf"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:{COMMANDS})(?:\s|$)")
TAG = re.compile(r"^<!-- (run|not run|prints)(?:\b[;:]?\s*(.*?))? ?-->$", re.DOTALL)
LIMIT_S = 120


@dataclasses.dataclass
class Block:
    """One block of a page."""

    page: str
    line: int
    text: str
    tag: str = ""  # "run", "not run", "prints" or none
    said: str = ""  # what the tag says behind that
    options: dict = dataclasses.field(default_factory=dict)

    @property
    def place(self):
        return f"{self.page}:{self.line}"

    @property
    def commands(self):
        return any(COMMAND.match(line) for line in self.text.splitlines())


def tag_before(lines, at):
    """The comment that ends right above line `at` (blank lines aside): (kind, rest) or none."""
    end = at - 1
    while end >= 0 and not lines[end].strip():
        end -= 1
    if end < 0 or not lines[end].rstrip().endswith("-->"):
        return "", ""
    begin = end
    while begin > 0 and "<!--" not in lines[begin]:
        begin -= 1
    match = TAG.match("\n".join(lines[begin : end + 1]).strip())
    return (match.group(1), match.group(2) or "") if match else ("", "")


def tag_options(said):
    """{"as": [(from, to)], "before" or "by": [command], "needs": [...], "exit": code} of a tag."""
    options = {"as": [], "before": [], "by": [], "needs": [], "exit": 0}
    for part in re.split(r";\s+(?=(?:as|before|by|needs|exit):)|;\n", said):
        key, colon, value = part.strip().lstrip(";").strip().partition(":")
        value = value.strip()
        if not key and not colon:
            continue
        if key not in options or not value:
            raise ValueError(f"'{part.strip()}' is not as:, before:, by:, needs: or exit:")
        if key == "as":
            old, arrow, new = value.partition("=>")
            if not arrow:
                raise ValueError(f"'as: {value}' has no =>")
            options["as"].append((old.strip(), new.strip()))
        elif key == "exit":
            options["exit"] = int(value)
        else:
            options[key].append(value)
    return options


def begins_code(above):
    """Whether an indented line below this one is a block of code and no part of a paragraph."""
    return not above.strip() or above.startswith("#") or above.endswith("-->")


def blocks_of(page, text):
    """Every block of code of a page, fenced or indented."""
    lines, found, at = text.splitlines(), [], 0
    while at < len(lines):
        fence = re.match(r"^(```+)(\w*)", lines[at])
        begin = at
        if fence:
            at += 1
            while at < len(lines) and not lines[at].startswith(fence.group(1)):
                at += 1
            body = lines[begin + 1 : at]
        elif lines[at].startswith("    ") and begins_code(lines[at - 1] if at > 0 else ""):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            body = [line[4:] for line in lines[begin:at]]
            at -= 1
        else:
            at += 1
            continue
        at += 1
        block = Block(page, begin + 1, "\n".join(body).rstrip() + "\n")
        block.tag, block.said = tag_before(lines, begin)
        found.append(block)
    return found


def pages(part=""):
    for path in ["README.md", *sorted(glob.glob("docs/*.md", root_dir=ROOT))]:
        if part in path:
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                yield path, blocks_of(path, file.read())


def faults_of_tags(blocks):
    """Sentences about blocks whose tag is missing or makes no sense."""
    for before, block in zip([None, *blocks], blocks):
        if block.tag in ("run", "prints"):
            try:
                block.options = tag_options(block.said)
            except ValueError as error:
                yield f"{block.place}: {error}"
            for old, _ in block.options.get("as", []):
                if old not in block.text:
                    yield f"{block.place}: 'as: {old}' is not in the block"
        if block.tag == "not run" and len(block.said) < 8:
            yield f"{block.place}: 'not run' says no reason"
        if block.tag == "prints" and not block.options.get("by") and (
            before is None or before.tag != "run"
        ):
            yield f"{block.place}: 'prints' stands behind no block that is run"
        elif not block.tag and block.commands:
            yield f"{block.place}: commands without a tag (<!-- run --> or <!-- not run: why -->)"


def as_pattern(line):
    """A shown line as a pattern: figures may differ, blanks count once, ... is anything."""
    words = re.escape(re.sub(r"\s+", " ", line.strip()))
    words = re.sub(r"(?:-?\d+(?:\\\.\d+)?(?:e\\?[-+]?\d+)?)", r"\\S+", words)
    return re.compile(words.replace(r"\.\.\.", ".*"))


def missing_line(shown, printed):
    """The first line of `shown` that does not come in `printed`, in order; None: all do."""
    rest = [re.sub(r"\s+", " ", line.strip()) for line in printed.splitlines()]
    for line in filter(str.strip, shown.splitlines()):
        pattern = as_pattern(line)
        at = next((i for i, candidate in enumerate(rest) if pattern.search(candidate)), None)
        if at is None:
            return line
        rest = rest[at + 1 :]
    return None


def lab_is_possible(shoal):
    done = subprocess.run(
        [shoal, "run", "-n", "2", "--lab", "rate=1gbit", "--", "true"],
        capture_output=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
    )
    return done.returncode == 0


def has_torch():
    words = ["/usr/bin/python3", "-c", "import torch"]
    done = subprocess.run(words, capture_output=True, check=False)
    return done.returncode == 0


class Runner:
    """Runs the blocks of a page in a folder of its own, with the built command on the PATH."""

    def __init__(self, build):
        self.shoal = os.path.join(build, "shoal")
        self.build = build
        self.lab = lab_is_possible(self.shoal)
        self.count = {"passed": 0, "failed": 0, "skipped": 0}
        self.env = dict(os.environ)
        self.env |= {"PATH": f"{build}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1",
                     "PYTHONPATH": os.path.join(ROOT, "python"),
                     "SHOAL_LIBRARY": os.path.join(build, "libshoal.so")}
        self.env.pop("SHOAL_JOB", None)

    def page(self, blocks):
        printed = None
        with tempfile.TemporaryDirectory(prefix="shoal-docs-") as folder:
            for name in ("bench", "examples", "include", "innet", "python", "tools"):
                os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
            os.makedirs(os.path.join(folder, "build"))
            os.makedirs(os.path.join(folder, "bin"))  # Debian's Python, which PyTorch belongs to
            os.symlink("/usr/bin/python3", os.path.join(folder, "bin", "python3"))
            os.symlink(self.build, os.path.join(folder, "build", "release"))
            for block in blocks:
                if block.tag == "run":
                    printed = self.run(block, folder, block.text)
                elif block.tag == "prints" and block.options["by"]:
                    printed = self.run(block, folder, "\n".join(block.options["by"]))
                if block.tag == "prints" and printed is not None:
                    line = missing_line(block.text, printed)
                    self.tell(block, None if line is None else f"not printed: {line}\n{printed}")

    def lacks(self, need):
        """Why this machine cannot have it; none: it can."""
        if need == "lab" and not self.lab:
            return "network namespaces are not allowed here"
        if need == "torch" and not has_torch():
            return "Debian's Python has no PyTorch (packages.txt)"
        return ""

    def run(self, block, folder, text):
        """What the commands print; none if they fail, or cannot be run here."""
        options = block.options
        reason = "; ".join(filter(None, map(self.lacks, options["needs"])))
        if reason:
            self.count["skipped"] += 1
            print(f"skipped {block.place}: {reason}")
            return None
        text = re.sub(r"(?m)^\$ ", "", text)
        for old, new in options["as"]:
            text = text.replace(old, new)
        script = f"set -e; PATH={folder}/bin:$PATH\n" + "\n".join([*options["before"], text])
        process = subprocess.Popen(
            ["bash", "-c", script], cwd=folder, env=self.env, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        try:
            printed, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            printed = (process.communicate()[0] or "") + f"\nnot through after {LIMIT_S} s"
        fault = None
        if process.returncode != options["exit"]:
            fault = f"exit status {process.returncode}\n{script}\n{printed[-3000:]}"
        self.tell(block, fault)
        return None if fault else printed

    def tell(self, block, fault):
        self.count["failed" if fault else "passed"] += 1
        print(f"{'FAILED' if fault else 'passed'} {block.place}" + (f": {fault}" if fault else ""))
        sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--tags", action="store_true", help="look at the tags only")
    parser.add_argument("--page", default="", help="only pages whose path has this in it")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    args = parser.parse_args()
    checked = list(pages(args.page))
    faults = [fault for _, blocks in checked for fault in faults_of_tags(blocks)]
    print("".join(f"{fault}\n" for fault in faults), end="")
    if args.tags or faults:
        return 1 if faults else 0
    if shutil.which(os.path.join(args.build, "shoal")) is None:
        print(f"check_docs: {args.build}/shoal is missing: make build")
        return 1
    runner = Runner(os.path.abspath(args.build))
    for _, blocks in checked:
        runner.page(blocks)
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**runner.count))
    return 1 if runner.count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
