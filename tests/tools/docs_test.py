#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/errors.md knows every status of shoal/status.h, by value and name, and no other;
docs/environment.md every variable that the code reads or sets, and no other; README counts what
there is."""

import glob
import os
import re
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class ErrorsTest(unittest.TestCase):
    def test_every_status_is_explained_in_its_group(self):
        stated = re.findall(r"X\((\w+), (\d+), ", read("include/shoal/status.h"))
        self.assertGreater(len(stated), 10)
        explained, group = [], None
        for line in read("docs/errors.md").splitlines():
            heading = re.match(r"## (\d+)-(\d+):", line)
            group = (int(heading.group(1)), int(heading.group(2))) if heading else group
            row = re.match(r"\| (\d+) \| `(E?[A-Z]+)` \| (.+) \| (.+) \|$", line)
            if row:
                explained.append((row.group(2), row.group(1)))
                self.assertTrue(group[0] <= int(row.group(1)) <= group[1], line)
        self.assertEqual(sorted(stated), sorted(explained))


class ReadmeTest(unittest.TestCase):
    def test_it_counts_the_codecs_that_are_there(self):
        rows = re.findall(r"(?m)^SHOAL_CODEC\((\w+)\)", read("src/codec/codecs.def"))
        said = re.findall(r"(\d+) gradient codecs", read("README.md"))
        self.assertIn("identity", rows)  # none, and so not counted
        self.assertEqual([str(len(rows) - 1)], said)


NOT_OURS = {"ARGP_HELP_FMT"}  # set around a call of argp and nothing else
OF_LIBRARIES = {"ONEDNN_MAX_CPU_ISA"}  # what ours load read it
READ = re.compile(
    r"(?:getenv|setenv|variable|number|environ(?:\.get)?)[\[(](?:[^()\";]*, *)?\"([A-Z_]{4,})\""
)


def variables_of_the_code():
    """Names in calls that read or set a variable, and all quoted names that begin with SHOAL_ or
    stand in the table of launchers."""
    found = set()
    for pattern in ("src/**/*.[ch]", "cli/*.[ch]", "python/shoal/*.py"):
        for path in glob.glob(pattern, root_dir=ROOT, recursive=True):
            text = read(path)
            found.update(READ.findall(text))
            found.update(re.findall(r"\"(SHOAL_[A-Z_]*[A-Z])(?:=[^\"]*)?\"", text))
    table = read("src/meet/launch.c").split("sources[] = {")[1].split("};")[0]
    found.update(re.findall(r"\"([A-Z_]{4,})\"", table))
    return {name for name in found if not re.match(r"SHOAL_(TENSOR|CODEC)|.*_INIT$", name)}


class EnvironmentTest(unittest.TestCase):
    def test_the_page_has_every_variable_and_no_other(self):
        told = set(re.findall(r"`([A-Z][A-Z_]{3,})`", read("docs/environment.md")))
        found = variables_of_the_code() - NOT_OURS
        self.assertGreater(len(found), 25)
        self.assertEqual(set(), found - told, "not on the page")
        self.assertEqual(set(), told - found - OF_LIBRARIES, "not in the code")


if __name__ == "__main__":
    unittest.main()
