# SPDX-License-Identifier: Apache-2.0
"""`shoal train --precision bf16`: it learns what float32 learns, goes on bit for bit, is the same
for simulated workers, and is refused by name where nothing multiplies so."""
import json
import os
import shutil
import statistics
import tempfile
import unittest

import shoal
import train_test

SIDE, CLASSES = train_test.SIDE, train_test.CLASSES
LAYERS = ["conv:out=8,kernel=3,pad=1", "batchnorm", "relu", "conv:out=8,kernel=3,pad=1", "relu",
          "flatten", "dense:out=64", "tanh", f"dense:out={CLASSES}"]
#: Of the mean of the last epoch's losses, over three seeds.
TOLERANCE, SEEDS = 0.02, (1, 2, 3)


class Bf16(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="shoal-bf16-")
        train_test.write_data(cls.folder)
        cls.model = cls.at("net.json")
        with open(cls.model, "w", encoding="ascii") as f:
            json.dump({"name": "net", "input": [1, SIDE, SIDE], "layers": LAYERS}, f)
        text = cls.at("corpus.txt")
        with open(text, "w", encoding="ascii") as f:
            f.write("".join(f"{i} and {i} are {2 * i}.\n" for i in range(400)))
        r = shoal.run("data", "text", "--out", cls.at("text"), "--tokens", "bytes", "--length", 16,
                      "--from", text)  # fmt: skip
        assert r.returncode == 0, r.stderr

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder, name)

    def train(self, *args, code=0):
        usual = {"--model": self.model, "--data": self.folder, "--batch": 10, "--epochs": 4,
                 "--lr": 0.05}  # fmt: skip
        given = () if "--resume" in args else shoal.usual(usual, args)
        r = shoal.run("train", *given, *args, "--quiet")
        self.assertEqual(r.returncode, code, r.stderr)
        return r

    def losses(self, out):
        with open(os.path.join(self.at(out), "metrics.jsonl"), encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        return [line["loss"] for line in lines if "step_us" in line]

    def mean_loss(self, precision, *args):
        """Of the last quarter of all steps, over the seeds."""
        found = []
        for seed in SEEDS:
            out = f"{precision}-{seed}-{len(args)}"
            self.train("--precision", precision, "--seed", seed, "--out", self.at(out), *args)
            losses = self.losses(out)
            found += losses[-len(losses) // 4 :]
        return statistics.mean(found), losses

    def beside(self, *args):
        (whole, one), (rounded, other) = (self.mean_loss(p, *args) for p in ("float32", "bf16"))
        self.assertNotEqual(one, other)  # it is another computation
        self.assertAlmostEqual(rounded, whole, delta=TOLERANCE * max(whole, 0.1))
        return whole

    def test_a_small_net_of_images_learns_the_same(self):
        self.assertLess(self.beside(), 0.7)

    def test_a_small_language_model_learns_the_same(self):
        model = self.at("gpt.json")
        with open(model, "w", encoding="ascii") as f:
            json.dump({"name": "gpt", "input": [1, 16, 1], "init": "xavier", "layers": [
                "embedding:vocab=257,width=32,positions=16", "transformer:heads=2,ff=64",
                "unembedding:vocab=257,norm=2"]}, f)  # fmt: skip
        self.assertLess(
            self.beside("--model", model + ":parts", "--data", self.at("text"), "--optimizer",
                        "adamw", "--lr", 3e-3, "--steps", 120, "--no-eval"), 4)  # fmt: skip

    def test_it_goes_on_bit_for_bit(self):
        both = ("--workers", 2, "--precision", "bf16", "--checkpoint-every", 3)
        self.train(*both, "--steps", 9, "--out", self.at("whole"))
        self.train(*both, "--steps", 6, "--out", self.at("cut"))
        self.train("--resume", self.at("cut"), "--steps", 9)
        self.assertEqual(train_test.read_weights(self.at("whole")),
                         train_test.read_weights(self.at("cut")))  # fmt: skip
        r = self.train("--resume", self.at("cut"), "--model", self.model, "--precision", "float32",
                       "--steps", 12, code=2)  # fmt: skip
        self.assertIn("precision=bf16", r.stderr)
        r = self.train("--resume", self.at("cut"), "--precision", "bf16", code=2)
        self.assertIn("--precision goes with --model", r.stderr)
        r = shoal.run("eval", "--from", self.at("whole"), "--json")
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_simulated_workers_are_the_real_ones(self):
        both = ("--precision", "bf16", "--steps", 5, "--codec", "fp16")
        self.train(*both, "--workers", 2, "--out", self.at("real"))
        self.train(*both, "--simulate", 2, "--out", self.at("simulated"))
        real, simulated = (train_test.read_weights(self.at(out)) for out in ("real", "simulated"))
        for weights in (real, simulated):  # each worker has statistics of its own
            weights.pop("batchnorm.state")
        self.assertEqual(real, simulated)

    def test_a_cpu_without_it_trains_and_says_so(self):
        slow = {"ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2"}
        for env, says in ((slow, True), ({}, not self.cpu_has_it())):
            for precision in ("bf16", "float32"):
                r = shoal.run("train", "--model", self.model, "--data", self.folder, "--steps", 2,
                              "--workers", 2, "--precision", precision, "--quiet",
                              env=env)  # fmt: skip
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertEqual(r.stderr.count("multiplies no bfloat16"),
                                 says and precision == "bf16")  # fmt: skip

    @staticmethod
    def cpu_has_it():
        with open("/proc/cpuinfo", encoding="ascii") as f:
            return "avx512_bf16" in f.read()

    def test_it_is_refused_where_nothing_multiplies_so(self):
        for args, text in ((("--model", "lstm-text"), "lstm"),
                           (("--model", "mlp", "--circulant", "k=8"), "circulant"),
                           (("--model", "svm:vocab=16,length=2"), "sparse")):  # fmt: skip
            r = shoal.run("train", *args, "--precision", "bf16", "--data", self.folder)
            self.assertNotEqual(r.returncode, 0)
            self.assertRegex(r.stderr, f"does not train in bf16: the products of '{text}")
        self.assertIn("float32 or bf16", self.train("--precision", "half", code=2).stderr)

    def test_it_may_be_said_twice_and_is_one(self):
        words = "--model", "mlp-small:precision=bf16", "--data", self.folder, "--dry-run"
        r = shoal.run("train", *words, "--precision", "bf16")
        self.assertEqual(r.returncode, 0, r.stderr)
        r = shoal.run("train", *words, "--precision", "float32")
        self.assertEqual(r.returncode, 2, r.stderr)
        self.assertIn("--precision float32, but --model says precision=bf16", r.stderr)


if __name__ == "__main__":
    unittest.main()
