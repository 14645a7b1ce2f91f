# SPDX-License-Identifier: Apache-2.0
"""shoal eval: a trained network in float32 and in fixed point; bad usage."""
import json
import os
import shutil
import tempfile
import unittest

import shoal

LAYERS = '["flatten", "circulant:out=64,block=8", "relu", "dense:out=10"]'


class Eval(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="shoal-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.data, cls.out = os.path.join(cls.folder, "data"), os.path.join(cls.folder, "run")
        model = os.path.join(cls.folder, "model.json")
        with open(model, "w", encoding="ascii") as f:
            f.write(f'{{"name": "m", "input": [1, 28, 28], "layers": {LAYERS}}}')
        made = shoal.run("data", "digits", "--out", cls.data, "--train", 600, "--test", 200)
        assert made.returncode == 0, made.stderr
        trained = shoal.run(
            *("train", "--model", model, "--data", cls.data, "--batch", 20, "--epochs", 2),
            *("--out", cls.out, "--json"),
        )
        assert trained.returncode == 0, trained.stderr
        cls.trained = json.loads(trained.stdout)

    def test_float_and_fixed(self):
        done = shoal.run(
            *("eval", "--from", self.out, "--data", self.data, "--json"),
            *("--fixed", 12, "--fixed", 16),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        got = json.loads(done.stdout)
        self.assertEqual(list(got), ["float32", "fixed12", "fixed16"])
        self.assertAlmostEqual(got["float32"]["accuracy"], self.trained["test_accuracy"], 3)
        for name in ("fixed12", "fixed16"):
            self.assertEqual(got[name]["samples"], 200)
            self.assertAlmostEqual(got[name]["loss"], got["float32"]["loss"], 1)
        text = shoal.run("eval", "--from", self.out, "--data", self.data, "--samples", 50)
        self.assertRegex(text.stdout, r"^float32 +loss \d\.\d+  accuracy \d+\.\d\d %\n$")

    def test_bad_usage(self):
        for args, part in (
            ((), "which run"),
            (("--from", self.out), "which run"),
            (("--from", self.out, "--data", self.data, "--fixed", 13), "13: not taken"),
            (("--from", self.out, "--data", self.data, "--no-float"), "nothing to do"),
        ):
            done = shoal.run("eval", *args)
            self.assertEqual((done.returncode, part in done.stderr), (2, True), done.stderr)
        lost = shoal.run("eval", "--from", self.folder, "--data", self.data)
        self.assertEqual(lost.returncode, 1)
        self.assertIn("no checkpoint", lost.stderr)


if __name__ == "__main__":
    shoal.main()
