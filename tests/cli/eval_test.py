# SPDX-License-Identifier: Apache-2.0
"""shoal eval and shoal export: a trained network in float32 and in fixed point, as C that compiles,
as safetensors, as an estimate of hardware; bad usage."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import shoal
import tensor_file

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

    def export(self, *args):
        out = os.path.join(self.folder, "net")
        return out, shoal.run(
            *("export", "--from", self.out, "--data", self.data, "--out", out, *args)
        )

    def test_export(self):
        out, done = self.export("--name", "digits", "--json", "--elements", 10, "--latency", 5)
        self.assertEqual(done.returncode, 0, done.stderr)
        got = json.loads(done.stdout)
        blocks = [(m["block_products"], m["cycles"]) for m in got["matrices"]]
        self.assertEqual(blocks, [(8 * 98, 79 + 98 + 5), (640, 64 + 64 + 5)])
        self.assertEqual(got["cycles"], sum(m["cycles"] for m in got["matrices"]))
        self.assertEqual(got["weight_bits"], 12 * (64 * 784 // 8 + 640))
        main = os.path.join(out, "main.c")
        with open(main, "w", encoding="ascii") as f:
            f.write('#include "digits.h"\nint16_t x[digits_IN], y[digits_OUT];\n')
            f.write("int32_t w[digits_WORDS(1)];\nint16_t h[digits_HALVES(1)];\n")
            f.write("int main(void) { digits_reset(w, h); digits_run(x, 1, y, w, h); return 0; }")
        command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-ffreestanding", main]
        subprocess.run([*command, "-o", main + ".out"], check=True, timeout=60)
        subprocess.run([main + ".out"], check=True, timeout=60)
        tensors, about = tensor_file.parts(os.path.join(out, "digits.safetensors"))
        self.assertEqual(tensors["circulant1.weight"][:2], ("I16", [784, 8]))
        self.assertIn("block=8", about["circulant1.weight"])
        table = self.export("--multipliers", 140)[1].stdout
        self.assertIn("10 elements of 14 multipliers", table)

    def test_convolutions(self):
        """Whole and block-circulant ones with pools, trained, in words and as C."""
        layers = ["conv:out=8,kernel=5,stride=2", "relu",
                  "circulant_conv:out=16,kernel=3,block=4,pad=1", "relu", "maxpool",
                  "circulant_conv:out=16,kernel=3,block=8", "tanh", "avgpool",
                  "dense:out=10"]  # fmt: skip
        model, run = os.path.join(self.folder, "conv.json"), os.path.join(self.folder, "conv")
        with open(model, "w", encoding="ascii") as f:
            json.dump({"name": "c", "input": [1, 28, 28], "layers": layers}, f)
        done = shoal.run(*("train", "--model", model, "--data", self.data, "--batch", 20),
                         *("--epochs", 2, "--out", run, "--quiet"))  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        done = shoal.run("eval", "--from", run, "--json", "--fixed", 12, "--fixed", 16)
        self.assertEqual(done.returncode, 0, done.stderr)
        got = json.loads(done.stdout)
        self.assertGreater(got["float32"]["accuracy"], 50)  # or equal losses would say little
        self.assertAlmostEqual(got["fixed12"]["loss"], got["float32"]["loss"], 1)
        self.assertAlmostEqual(got["fixed16"]["loss"], got["float32"]["loss"], 2)
        out = os.path.join(self.folder, "conv-net")
        done = shoal.run("export", "--from", run, "--out", out, "--name", "c", "--json",
                         "--elements", 4, "--latency", 0)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        places = [(m["rows"], m["cols"], m["places"], m["block_products"], m["cycles"])
                  for m in json.loads(done.stdout)["matrices"]]  # fmt: skip
        wanted = [(8, 25, 144, 200, 144 * 50 + 25), (16, 72, 144, 72, 144 * 18 + 18),
                  (16, 144, 16, 36, 16 * 9 + 18), (10, 64, 1, 640, 160 + 64)]  # fmt: skip
        self.assertEqual(places, wanted)

    def test_bad_usage(self):
        self.assertIn("no name for C", self.export("--name", "9a")[1].stderr)
        for args, part in (
            ((), "which run"),
            (("--data", self.data), "which run"),
            (("--from", self.out, "--data", self.data, "--fixed", 13), "'13' is not taken"),
            (("--from", self.out, "--data", self.data, "--no-float"), "nothing to do"),
        ):
            done = shoal.run("eval", *args)
            self.assertEqual((done.returncode, part in done.stderr), (2, True), done.stderr)
        lost = shoal.run("eval", "--from", self.folder, "--data", self.data)
        self.assertEqual(lost.returncode, 1)
        self.assertIn("no checkpoint", lost.stderr)


if __name__ == "__main__":
    shoal.main()
