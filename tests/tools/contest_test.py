#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/contest.py: who runs when, and what the rows say."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "bench", "peers"))
import contest  # noqa: E402

SMALL, LARGE = contest.Range(4, 16, 2, 9, 1), contest.Range(64, 64, 2, 3, 1)


def row(size, time_us, cpu=1.0, wrong=0):
    return {"bytes": size, "time_us": time_us, "cpu_s_per_gb": cpu, "wrong": wrong}


def found(*results):
    out = contest.Found()
    for name, rows in results:
        out.add({"name": name, "rows": rows, "idle": 0.5})
    return out


class ContestTest(unittest.TestCase):
    def test_everybody_runs_every_range_in_every_round_and_first_once(self):
        entrants = [contest.gloo("ring"), contest.gloo("bcube"), contest.iperf(1)]
        steps = list(contest.plan(entrants, [SMALL, LARGE], 3))
        names = [step["name"] for step in steps]
        self.assertEqual(6, names.count("gloo ring"))
        self.assertEqual(3, names.count("iperf3 ring"), "it has no sizes")
        self.assertEqual({e.name for e in entrants}, {names[i * 5] for i in range(3)})

    def test_a_range_reaches_the_command_line(self):
        words = contest.gloo("ring").step(SMALL)["argv"]
        self.assertEqual(["4", "16"], [words[words.index(o) + 1] for o in ("-b", "-e")])
        self.assertEqual([4, 8, 16], list(SMALL.sizes()))

    def test_figures_are_medians_of_rounds(self):
        result = found(("a", [row(4, 10)]), ("a", [row(4, 30)]), ("a", [row(4, 11)]))
        self.assertEqual(11, result.time_us("a", 4))
        self.assertIsNone(result.time_us("a", 8))

    def test_the_fastest_rival_is_chosen_by_size(self):
        result = found(("a", [row(4, 10), row(8, 50)]), ("b", [row(4, 20), row(8, 40)]))
        self.assertEqual((10, "a"), result.best(["a", "b"], 4))
        self.assertEqual((40, "b"), result.best(["a", "b"], 8))
        with self.assertRaises(contest.Failed):
            result.best(["c"], 4)

    def test_one_wrong_element_ends_the_contest(self):
        with self.assertRaises(contest.Failed):
            found(("a", [row(4, 10, wrong=1)]))

    def test_a_failed_step_is_kept_as_an_error(self):
        result = found(("a", [row(4, 10)]))
        result.add({"name": "b", "error": "exit status 1"})
        self.assertEqual({"b": "exit status 1"}, result.errors)
        self.assertEqual(["a"], result.names())

    def test_the_table_ends_with_ratios_to_the_first(self):
        result = found(("a", [row(4, 10, 2.0), row(8, 10, 2.0)]),
                       ("b", [row(4, 20, 1.0), row(8, 80, 1.0)]))
        lines = contest.table(result, ["a", "b", "never ran"])
        self.assertEqual("| **time / a's** | 1.00 | 4.00 |", lines[-2])
        self.assertEqual("| **CPU / a's** | 1.00 | 0.50 |", lines[-1])


if __name__ == "__main__":
    unittest.main()
