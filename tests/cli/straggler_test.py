# SPDX-License-Identifier: Apache-2.0
"""The table at the end of a run names the slow worker, or the slow link, of an emulated network."""
import json
import tempfile
import unittest

import shoal

LAB = shoal.lab_works()


class Straggler(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        r = shoal.run("data", "digits", "--out", cls.folder.name, "--train", 400, "--test", 100)
        assert r.returncode == 0, r.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def train(self, lab, *more):
        r = shoal.run(
            "train",
            "--model",
            "mlp-small",
            "--data",
            self.folder.name,
            "--workers",
            4,
            "--batch",
            4,
            "--compute-ms",
            20,
            "--steps",
            8,
            "--no-eval",
            "--lab",
            lab,
            *more
        )
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def causes(self, lab):
        ranks = json.loads(self.train(lab, "--json").splitlines()[-1])["ranks"]
        self.assertEqual([r["rank"] for r in ranks], [0, 1, 2, 3])
        return {r["rank"]: r for r in ranks if r["cause"]}

    @unittest.skipIf(LAB, LAB)
    def test_slow_worker(self):
        slow = self.causes("rate=200mbit,slow=3:8x")
        self.assertEqual({rank: r["cause"] for rank, r in slow.items()}, {3: "compute"})
        self.assertGreater(slow[3]["caused_ms"], 50)
        self.assertGreater(slow[3]["last_share"], 0.8)

    @unittest.skipIf(LAB, LAB)
    def test_slow_link(self):
        out = self.train("rate=200mbit,burst=16,link=1:30mbit")
        self.assertIn("rank 1 (", out)
        self.assertIn("slow link", out)


if __name__ == "__main__":
    shoal.main()
