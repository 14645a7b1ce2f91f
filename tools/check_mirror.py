#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that src/x/y.c has tests/unit/x/y_test.c, and that every unit test has its source.

tools/mirror_exempt.txt lists the exceptions, one "path  reason" a line; the tests that a reason
names must exist."""

import fnmatch
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

EXEMPT = "tools/mirror_exempt.txt"


def test_of(source):
    return re.sub(r"^src/(.*)\.c$", r"tests/unit/\1_test.c", source)


def source_of(test):
    return re.sub(r"^tests/unit/(.*)_test\.c$", r"src/\1.c", test)


def lost_tests(root, exempt):
    """(path, test) for each test that a reason names and that is not there."""
    tests = tree.files(root, ("_test.c", "_test.py"), "tests")
    for path, reason in exempt.items():
        for name in re.findall(r"tests/[\w/*.-]*_test\.(?:c|py)", reason):
            if not fnmatch.filter(tests, name):
                yield path, name


def main():
    root = tree.arguments(__doc__).root
    sources = set(tree.files(root, (".c",), "src"))
    tests = set(tree.files(root, ("_test.c",), "tests/unit"))
    exempt, problems = tree.exemptions(root, EXEMPT)
    for source in sorted(sources):
        if test_of(source) not in tests and source not in exempt:
            problems.append(f"{source}: has no {test_of(source)}")
    for test in sorted(tests):
        if source_of(test) not in sources and test not in exempt:
            problems.append(f"{test}: tests nothing, there is no {source_of(test)}")
    for path in sorted(exempt):
        needed = path in sources and test_of(path) not in tests
        needed |= path in tests and source_of(path) not in sources
        if not needed:
            problems.append(f"{EXEMPT}: {path} needs no exemption (any more)")
    for path, test in lost_tests(root, exempt):
        problems.append(f"{EXEMPT}: {path}: there is no {test}")
    tree.finish(problems, f"{len(sources)} sources, {len(tests)} unit tests, {len(exempt)} exempt")


if __name__ == "__main__":
    main()
