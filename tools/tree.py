# SPDX-License-Identifier: Apache-2.0
"""What the checkers share: the files of the tree, C without comments and strings, and reporting."""

import argparse
import os
import re
import subprocess
import sys

SKIP_DIRS = {".git", "build", "runs", "data", "__pycache__", "results", "vendor"}


def arguments(doc):
    """Parse the one option that every checker has; --root points self-tests at a fixture."""
    parser = argparse.ArgumentParser(description=doc)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--root", default=here, help="tree to check (default: this one)")
    return parser.parse_args()


def _tracked(root):
    """Tracked and new files below root; None outside a repository."""
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    names = [name for name in done.stdout.decode().split("\0") if name]
    return [name for name in names if os.path.isfile(os.path.join(root, name))]


def _walked(root):
    found = []
    for folder, dirs, names in os.walk(root):
        dirs[:] = sorted(d for d in dirs if d not in SKIP_DIRS)
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return found


def files(root, suffixes=("",), under=""):
    """Paths relative to root, sorted, that end in one of the suffixes and lie below `under`."""
    names = None
    if os.path.exists(os.path.join(root, ".git")):
        names = _tracked(root)
    if names is None:
        names = _walked(root)
    prefix = under.rstrip("/") + "/" if under else ""
    return sorted(n for n in names if n.startswith(prefix) and n.endswith(tuple(suffixes)))


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
        return file.read()


_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def code_only(text):
    """C text with comments and literals blanked; lines and columns stay."""
    return _TOKEN.sub(_blank, text)


def comments_only(text):
    """C text with everything but comments blanked; lines and columns stay."""
    out, last = [], 0
    for match in _TOKEN.finditer(text):
        out.append(re.sub(r"[^\n]", " ", text[last:match.start()]))
        out.append(match.group() if match.group().startswith("/") else _blank(match))
        last = match.end()
    out.append(re.sub(r"[^\n]", " ", text[last:]))
    return "".join(out)


def exemptions(root, name):
    """{path: reason} of an exemption file with lines "path  reason"; a reason is compulsory."""
    found, problems = {}, []
    if not os.path.exists(os.path.join(root, name)):
        return found, problems
    for number, line in enumerate(read(root, name).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        path, _, reason = line.partition(" ")
        if not reason.strip():
            problems.append(f"{name}:{number}: no reason given for {path}")
        found[path] = reason.strip()
    return found, problems


def finish(problems, summary):
    """Print the problems (or one line of summary) and exit."""
    for problem in problems:
        print(problem)
    tool = os.path.basename(sys.argv[0])
    print(f"{tool}: {len(problems)} problems" if problems else f"{tool}: ok, {summary}")
    sys.exit(1 if problems else 0)
