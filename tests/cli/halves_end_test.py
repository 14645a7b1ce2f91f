# SPDX-License-Identifier: Apache-2.0
"""A network that falls into parts within the last steps of a run: one part at most takes a final
mean and tells a result. Parts that have lost each other reach the end, as far as they know, before
they are told that they are a minority."""

import os
import tempfile
import unittest

import parted
import shoal
from parted import Case

REASON = shoal.lab_works()
HALVES = ((0, 1), (2, 3))


@unittest.skipIf(REASON, REASON)
class Ends(unittest.TestCase):
    def check(self, case):
        with tempfile.TemporaryDirectory(prefix="shoal-halves-") as folder:
            data = os.path.join(folder, "data")
            r = shoal.run("data", "digits", "--out", data, "--train", parted.SAMPLES, "--test", 40)
            self.assertEqual(0, r.returncode, r.stderr)
            outcome = parted.play(case, os.path.join(folder, "run"), data)
            self.assertEqual([], parted.two_halves(case, outcome), outcome.run.stderr)
            self.assertEqual(0, outcome.run.returncode, outcome.run.stderr)
            self.assertIn(outcome.went_on(), ([0, 1], [0, 1, 2, 3]), outcome.run.stderr)
            self.assertLessEqual(set(outcome.codes.values()), {0, 6, None}, outcome.run.stderr)

    def test_with_resets(self):
        self.check(Case("local_sgd:every=4", *HALVES, after=110, peer_timeout_s=3))

    def test_one_way(self):
        self.check(Case("hop:graph=complete", *HALVES, how="one-way", after=110, peer_timeout_s=3))


if __name__ == "__main__":
    shoal.main()
