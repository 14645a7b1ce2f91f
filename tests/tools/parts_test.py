#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/cli/parted.py and tools/parts.py: every check fails where something is planted that it is
there for, and a round has every way to fall into two parts. No run is made here."""

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools"))
import parts  # noqa: E402

parted = parts.parted
HALVES = ((0, 1), (2, 3))


def ended(codes, results=(2,), steps=(5, 10), code=0):
    said = "".join(json.dumps({"workers": workers}) + "\n" for workers in results)
    run = subprocess.CompletedProcess([], code, "a line\n" + said, "")
    return parted.Outcome("", run, dict(enumerate(codes)), list(steps))


class Checks(unittest.TestCase):
    case = parted.Case("hop", *HALVES)

    def never(self, *args, case=None, **kwargs):
        return parted.two_halves(case or self.case, ended(*args, **kwargs))

    def hoped(self, *args, **kwargs):
        return parted.not_as_hoped(self.case, ended(*args, **kwargs))

    def test_one_half_went_on(self):
        self.assertEqual([], self.never((0, 0, 6, None)))
        self.assertEqual([], self.hoped((0, 0, 6, None)))

    def test_all_were_through_before(self):
        self.assertEqual([], self.never((0, 0, 0, 0), results=(4,)))

    def test_who_came_back(self):
        case = parted.Case("hop", *HALVES, heal_s=1)
        self.assertEqual([], self.never((0, 0, 6, 0), results=(3,), case=case))

    def test_two_results(self):
        self.assertIn("2 results", self.never((0, 0, 0, 0), results=(2, 2)))

    def test_a_result_of_others(self):
        self.assertTrue(self.never((0, 0, 6, 6), results=(3,)))

    def test_two_that_do_not_reach_each_other(self):
        self.assertTrue(self.never((0, 6, 0, 6)))

    def test_latest_went_back(self):
        self.assertTrue(self.never((0, 0, 6, 6), steps=(10, 5)))

    def test_samples_are_looked_at(self):
        with tempfile.TemporaryDirectory() as folder:
            outcome = ended((0, 0, 6, 6))
            outcome.out = folder
            case = parted.Case("all_reduce", *HALVES)
            self.assertIn("no step was written", parted.two_halves(case, outcome))

    def test_nobody_went_on(self):
        self.assertTrue(self.hoped((6, 6, 6, 6), results=()))

    def test_another_code(self):
        self.assertTrue(self.hoped((0, 0, 5, 6)))
        self.assertTrue(self.hoped((0, 0, 6, 6), code=5))


class Round(unittest.TestCase):
    def test_every_way(self):
        found = parts.cases(random.Random(1))
        ways = {
            (frozenset((case.left, case.right)), case.how, case.heal_s): case for case in found
        }
        self.assertEqual((7 + 15) * len(parts.KINDS) * len(parts.HEALS), len(found))
        self.assertEqual(len(found), len(ways))
        self.assertEqual({sync for sync, _ in parts.SYNCS}, {case.sync for case in found})

    def test_who_decides(self):
        for left, right, those in (
            ((0, 1), (2, 3), [0, 1]), ((2, 3), (0, 1), [0, 1]), ((0,), (1, 2, 3), [1, 2, 3]),
            ((1, 2, 3), (0, 4), [1, 2, 3]),
        ):  # fmt: skip
            self.assertEqual(those, parted.Case("hop", left, right).deciding())


if __name__ == "__main__":
    unittest.main()
