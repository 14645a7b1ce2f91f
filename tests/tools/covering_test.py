# SPDX-License-Identifier: Apache-2.0
"""Covering arrays cover: checked by brute force, with constraints of every kind."""
import itertools
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "combos"))
import covering  # noqa: E402

FACTORS = {"a": range(4), "b": range(3), "c": range(3), "d": range(2), "e": range(2)}
PLAIN = {name: 0 for name in FACTORS}


def pairs_in(rows, strength=2):
    return {
        part
        for row in rows
        for part in itertools.combinations(sorted(row.items()), strength)
    }


class Covering(unittest.TestCase):
    def array(self, accepts, bases=(PLAIN,), **options):
        return covering.Array(FACTORS, list(bases), accepts, **options)

    def test_without_constraints_all_pairs_are_there(self):
        made = self.array(lambda row: True)
        self.assertEqual(set(covering.tuples_of(FACTORS, FACTORS, 2)), pairs_in(made.rows))
        self.assertEqual([], made.refused)
        self.assertLess(len(made.rows), 24)  # of 144; 12 at least

    def test_triples_too(self):
        made = self.array(lambda row: True, strength=3)
        self.assertEqual(set(covering.tuples_of(FACTORS, FACTORS, 3)), pairs_in(made.rows, 3))

    def test_what_is_refused_is_in_no_row_and_all_else_is_in_one(self):
        def accepts(row):
            return not (row["a"] == 1 and row["b"] == 2) and not (
                row["c"] == 1 and row["d"] == 1 and row["e"] == 1
            )

        made = self.array(accepts)
        self.assertTrue(all(accepts(row) for row in made.rows))
        self.assertEqual([(("a", 1), ("b", 2))], made.refused)
        wanted = set(covering.tuples_of(FACTORS, FACTORS, 2)) - set(made.refused)
        self.assertEqual(wanted, pairs_in(made.rows) & wanted)
        self.assertEqual(wanted, pairs_in(made.rows))

    def test_a_value_that_needs_another_base(self):
        def accepts(row):
            return row["a"] != 3 or row["b"] == 1

        without = self.array(accepts)
        self.assertTrue(any(("a", 3) in part for part in without.refused))
        made = self.array(accepts, bases=(PLAIN, {**PLAIN, "b": 1}))
        self.assertEqual({(("a", 3), ("b", 0)), (("a", 3), ("b", 2))}, set(made.refused))
        self.assertIn((("a", 3), ("e", 1)), pairs_in(made.rows))

    def test_the_same_seed_gives_the_same_rows(self):
        self.assertEqual(self.array(lambda row: True, seed=5).rows,
                         self.array(lambda row: True, seed=5).rows)


if __name__ == "__main__":
    unittest.main()
