#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""diloco:trust=median: one of eight that sends anything decides nothing, and is named; the honest
train as without it, on real processes, too."""
import json
import os
import tempfile
import unittest

import shoal

WORKERS, LIAR = 8, 5


class Lies(unittest.TestCase):
    """In virtual time, on a convex problem with real numbers."""

    def sim(self, trust, faults, *more, code=0):
        faults = ("--faults", f"plan:{faults}") if faults else ()
        r = shoal.run("sim", "--workers", WORKERS, "--params", 400, "--iterations", 64, "--json",
                      "--problem", "quadratic:lr=0.05,noise=0.1,spread=0.1", "--no-mixing",
                      "--sync", f"diloco:every=4,momentum=0.5,trust={trust}", *faults, *more)
        self.assertEqual(r.returncode, code, r.stderr)
        return json.loads(r.stdout), r.stderr

    def refused(self, found):
        return [w["refused_updates"] for w in found["per_worker"]]

    def test_one_of_eight_that_lies(self):
        honest, log = self.sim("median", "")
        self.assertEqual(self.refused(honest), [0] * WORKERS)
        self.assertNotIn("refused", log)
        for kind, why in (("flip", "not along with the others"), ("scale", "ten times as long"),
                          ("noise", "")):
            with self.subTest(kind=kind):
                found, log = self.sim("median", f"lie={LIAR}:{kind}")
                spoilt, _ = self.sim("mean", f"lie={LIAR}:{kind}")
                loss, lost = (one["curve"][-1]["loss"] for one in (found, spoilt))
                self.assertLess(loss, 2 * honest["curve"][-1]["loss"])
                self.assertGreater(lost, 1.1 * loss)
                self.assertEqual(sum(self.refused(found)), self.refused(found)[LIAR])
                if why:
                    self.assertGreater(self.refused(found)[LIAR], 0)
                    self.assertIn(f"update of worker {LIAR} of iteration 4 is refused", log)
                    self.assertIn(why, log)

    def test_what_is_not_finite_ends_a_mean_and_no_median(self):
        r = shoal.run("sim", "--workers", WORKERS, "--params", 400, "--iterations", 8, "--problem",
                      "quadratic:lr=0.1", "--sync", "diloco:every=4", "--faults",
                      f"plan:nan={LIAR}@2")  # fmt: skip
        self.assertNotEqual(r.returncode, 0)
        found, log = self.sim("median", f"nan={LIAR}@2")
        self.assertGreater(self.refused(found)[LIAR], 0)
        self.assertIn("it is not finite", log)

    def test_with_all_that_diloco_has(self):
        for more in (("--codec", "int8"), ("--codec", "topk:k=0.1"), ("--codec", "eden:bits=4")):
            with self.subTest(more=more):
                found, _ = self.sim("median", f"lie={LIAR}:scale", *more)
                self.assertEqual(self.refused(found)[LIAR], 16)
                found, _ = self.sim("median", f"nan={LIAR}@2", *more)
                self.assertGreater(self.refused(found)[LIAR], 0)
        for keys in ("median,fragments=2", "median,delay=2", "median,keep=0.5", "median,quorum=5"):
            with self.subTest(keys=keys):
                found, _ = self.sim(keys, f"lie={LIAR}:scale")
                self.assertGreater(self.refused(found)[LIAR], 10)
        found, _ = self.sim("median", f"lie={LIAR}:scale,die=2@3", code=1)
        self.assertEqual(found["per_worker"][2]["end"], "dead")
        self.assertEqual(self.refused(found)[LIAR], 16)

    def test_what_does_not_go_is_refused(self):
        for more, why in ((("--workers", 2), "3 to 64 workers"),
                          (("--workers", 4, "--codec", "powersgd"), "travels by itself"),
                          (("--workers", 4, "--faults", "plan:lie=4:flip"), "worker 4 of 4"),
                          (("--workers", 4, "--faults", "plan:lie=1:rude"), "noise, flip or scale"),
                          (("--workers", 4, "--faults", "plan:lie=1:flip"), "real numbers")):
            with self.subTest(more=more):
                r = shoal.run("sim", "--sync", "diloco:trust=median", *more)
                self.assertEqual(r.returncode, 2, r.stderr)
                self.assertIn(why, r.stderr)
        r = shoal.run("sim", "--sync", "hop", "--problem", "quadratic:lr=0.1", "--faults",
                      "plan:lie=1:flip")
        self.assertEqual(r.returncode, 2, r.stderr)
        self.assertIn("sum gradients", r.stderr)


class Real(unittest.TestCase):
    def test_honest_workers_train_and_go_on(self):
        with tempfile.TemporaryDirectory() as folder:
            data, out = os.path.join(folder, "digits"), os.path.join(folder, "run")
            r = shoal.run("data", "digits", "--out", data, "--train", 240, "--test", 40)
            self.assertEqual(r.returncode, 0, r.stderr)
            for codec in ("identity", "int8"):
                args = ("train", "--model", "mlp-small", "--data", data, "--workers", 3, "--batch",
                        10, "--no-eval", "--json", "--codec", codec, "--out", out + codec,
                        "--sync", "diloco:every=4,momentum=0.5,trust=median")
                r = shoal.run(*args)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertNotIn("refused", r.stderr)
                r = shoal.run("train", "--resume", out + codec, "--epochs", 2, "--json")
                self.assertEqual(r.returncode, 0, r.stderr)


if __name__ == "__main__":
    unittest.main()
