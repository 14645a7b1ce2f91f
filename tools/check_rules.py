#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check rules that a pattern can see: no sleeping test, no library that prints or ends the process,
heap through base/arena.h only, nothing left unfinished.

tools/rules_exempt.txt lists the exceptions, one "path:rule  reason" a line."""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

EXEMPT = "tools/rules_exempt.txt"

# name, folders, files, pattern in code without comments and literals, what to do instead
RULES = [
    ("sleep", ("tests",), (".c", ".h"), r"\b(?:u|nano|clock_nano)?sleep\s*\(|\bthrd_sleep\s*\(",
     "a test waits for a condition with a deadline, never for time"),
    ("sleep", ("tests",), (".py",), r"\btime\.sleep\s*\(|^\s*from time import.*\bsleep\b",
     "a test waits for a condition with a deadline, never for time"),
    ("prints", ("src",), (".c", ".h"), r"\b(?:printf|puts|putchar|vprintf|perror)\s*\(|\bstdout\b",
     "the library never prints: return a status or use base/log.h"),
    ("ends", ("src",), (".c", ".h"), r"\b(?:abort|exit|_exit|quick_exit|assert)\s*\(",
     "the library never ends the process: return a status"),
    ("heap", ("src",), (".c", ".h"),
     r"(?<![\w>.])(?:malloc|calloc|realloc|reallocarray|free|strdup|strndup|aligned_alloc|"
     r"posix_memalign|asprintf)\s*\(",
     "heap goes through base/arena.h, so that tests can fail the k-th allocation"),
    ("random", ("src", "tests"), (".c", ".h"), r"\b(?:s?rand|random|drand48|rand_r)\s*\(",
     "random numbers come from base/rng.h with a printed seed"),
    ("unsafe", ("src", "cli"), (".c", ".h"),
     r"\b(?:sprintf|vsprintf|gets|atoi|atol|atof)\s*\(",
     "use the bounded, checked form"),
]
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b|#\s*if\s+0\b")
TEXT = (".c", ".h", ".py", ".sh", ".cmake", "CMakeLists.txt", "Makefile", ".def")


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def check_file(name, text, exempt, used, problems):
    code = tree.code_only(text) if name.endswith((".c", ".h")) else text
    for rule, folders, suffixes, pattern, advice in RULES:
        if not name.startswith(tuple(f + "/" for f in folders)) or not name.endswith(suffixes):
            continue
        for match in re.finditer(pattern, code, re.M):
            if f"{name}:{rule}" in exempt:
                used.add(f"{name}:{rule}")
                continue
            found = " ".join(match.group().split())
            problems.append(f"{name}:{line_of(code, match.start())}: {rule}: {found} - {advice}")
    if name.startswith(("tools/check_rules", "tests/tools/")):
        return  # they name the marks that they look for
    for match in UNFINISHED.finditer(text):
        problems.append(f"{name}:{line_of(text, match.start())}: unfinished: {match.group()}")


def main():
    root = tree.arguments(__doc__).root
    exempt, problems = tree.exemptions(root, EXEMPT)
    used = set()
    names = tree.files(root, TEXT)
    for name in names:
        check_file(name, tree.read(root, name), exempt, used, problems)
    for path in sorted(set(exempt) - used):
        problems.append(f"{EXEMPT}: {path} needs no exemption (any more)")
    tree.finish(problems, f"{len(names)} files, {len(exempt)} exemptions")


if __name__ == "__main__":
    main()
