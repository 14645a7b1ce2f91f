#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/errors.md knows every status of shoal/status.h, by value and name, and no other."""

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


if __name__ == "__main__":
    unittest.main()
