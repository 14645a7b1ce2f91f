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

    def train(self, lab, *more, compute_ms=5, steps=60):
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
            compute_ms,
            "--epochs",
            3,
            "--steps",
            steps,
            "--codec",
            "int8",
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
        self.assertGreater(slow[3]["caused_ms"], 12)
        self.assertGreater(slow[3]["last_share"], 0.8)

    @unittest.skipIf(LAB, LAB)
    def test_slow_link(self):
        out = self.train("rate=200mbit,burst=16,link=1:30mbit")
        self.assertIn("rank 1 (", out)
        self.assertEqual(out.count("slow link"), 1, out)

    @unittest.skipIf(LAB, LAB)
    def test_links_are_as_fast_as_they_can_be(self):
        """A shaper lets a burst pass at any rate, which is no link's. A rate is known once a link
        was busy for 0.1 s: after more steps where the processor is what they wait for."""
        for steps in (8, 32, 128):
            out = self.train("rate=20mbit,burst=2048", "--json", steps=steps)
            ranks = json.loads(out.splitlines()[-1])["ranks"]
            rates = [r[way] for r in ranks for way in ("sends_bytes_s", "receives_bytes_s")]
            if max(rates) > 0:
                break
        self.assertGreater(max(rates), 0, ranks)
        self.assertLessEqual(max(rates), 20e6 / 8, ranks)
        self.assertEqual([r["cause"] for r in ranks], 4 * [""])

    def test_few_steps_name_nobody(self):
        args = ["train", "--model", "mlp-small", "--data", self.folder.name, "--workers", 2]
        args += ["--batch", 4, "--no-eval", "--steps"]
        r = shoal.run(*args, 49, env={"SHOAL_SLOW": "8"})
        self.assertIn("no straggler: a verdict needs 50 steps", r.stdout, r.stderr)


if __name__ == "__main__":
    shoal.main()
