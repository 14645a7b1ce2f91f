# SPDX-License-Identifier: Apache-2.0
"""A small LLaMA by the command: two workers learn what one does, a run that was broken off goes on
bit for bit, DiLoCo with a codec learns, the network writes, what is only described is said."""
import itertools
import json
import os
import tempfile
import unittest

import numpy

import shoal
from data_text_test import read_safetensors

BLOCK = "transformer:heads=4,kv=2,ff=24,gated,bias=off"
TEXT = "".join(f"{i} times {i} is {i * i}; " for i in range(300))


class Language(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-test-"))
        cls.data, cls.model = cls.at("data"), cls.at("small.json")
        with open(cls.at("a.txt"), "w", encoding="ascii") as f:
            f.write(TEXT)
        made = shoal.run("data", "text", "--out", cls.data, "--tokens", "bytes", "--length", 16,
                         cls.at("a.txt"))  # fmt: skip
        assert made.returncode == 0, made.stderr
        with open(cls.model, "w", encoding="ascii") as f:
            json.dump({"name": "small", "input": [1, 16, 1], "init": "xavier", "layers": [
                "embedding:vocab=257,width=16", BLOCK, BLOCK, "unembedding:vocab=257,norm=1"]}, f)

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder, name)

    def train(self, *args):
        done = shoal.run("train", "--model", self.model + ":parts", "--data", self.data,
                         "--optimizer", "adamw", "--lr", 0.01, "--json", *args)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def weights(self, run):
        folder = os.path.join(self.at(run), "checkpoints")
        with open(os.path.join(folder, "latest"), encoding="ascii") as f:
            return read_safetensors(os.path.join(folder, f.read().strip(), "common.safetensors"))

    def test_two_workers_learn_what_one_does(self):
        one = self.train("--batch", 8, "--steps", 5, "--out", self.at("one"))
        two = self.train("--batch", 4, "--steps", 5, "--workers", 2, "--out", self.at("two"))
        self.assertAlmostEqual(one["train_loss"], two["train_loss"], delta=1e-4)
        ours, theirs = self.weights("one"), self.weights("two")
        self.assertEqual(set(ours), set(theirs))
        self.assertIn("lookup1.table", ours)
        for name, values in ours.items():
            numpy.testing.assert_allclose(theirs[name], values, atol=2e-3, err_msg=name)

    def test_a_broken_run_goes_on_bit_for_bit(self):
        args = ("--batch", 4, "--workers", 2, "--no-eval")
        self.train(*args, "--epochs", 2, "--out", self.at("whole"))
        self.train(*args, "--epochs", 1, "--out", self.at("half"))
        self.train(*args, "--epochs", 2, "--resume", self.at("half"))
        whole, half = self.weights("whole"), self.weights("half")
        self.assertEqual(set(whole), set(half))
        for name, values in whole.items():
            self.assertTrue(numpy.array_equal(values, half[name]), name)

    def test_diloco_with_eden_learns_and_the_network_writes(self):
        run = self.at("run")
        told = self.train("--batch", 4, "--workers", 2, "--epochs", 3, "--sync", "diloco:every=10",
                          "--codec", "eden:bits=4", "--out", run)  # fmt: skip
        self.assertLess(told["bits_per_byte"], 4.5)  # 8 without having learned anything
        args = ("generate", "--from", run, "--prompt", "7 times 7", "--tokens", 40, "--json")
        one, again = (json.loads(shoal.run(*args, "--seed", 3).stdout) for _ in range(2))
        self.assertEqual(one["tokens"], again["tokens"])
        self.assertTrue(len(one["tokens"]) == 40 or one["ended"])
        prompts = ("7 times 7 is ", "times", TEXT[300:340])  # the last is longer than a sample
        self.assertGreater(sum(self.as_a_prompt(run, prompt) for prompt in prompts), 0)

    def as_a_prompt(self, run, prompt):
        """What is kept of earlier tokens changes nothing, nor that the first ones are left behind:
        what was said, as a prompt, goes on in the same way, to the same end. How long the network
        speaks is its own affair: sums in another order, on another processor, make other words.
        Returns how many continuations were compared."""
        def ask(prompt, tokens):
            done = shoal.run("generate", "--from", run, "--prompt", prompt, "--tokens", tokens,
                             "--temperature", 0, "--json")  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            told = json.loads(done.stdout)
            return told["tokens"], told["ended"]

        said, ended = ask(prompt, 24)
        words = bytes(itertools.takewhile(lambda token: 0 < token < 128, said)).decode("ascii")
        counts = [n for n in (1, 2, 8, 20) if n <= len(words)]  # a sample has 16
        for count in counts:
            self.assertEqual(ask(prompt + words[:count], 24 - count), (said[count:], ended))
        return len(counts)

    def test_an_onnx_file_of_tokens_says_what_runs_instead(self):
        file, model = self.at("net.onnx"), self.model + ":parts"
        self.train("--batch", 4, "--steps", 1, "--no-eval", "--out", self.at("leaves"))
        made = shoal.run("export", "--from", self.at("leaves"), "--onnx", file)
        self.assertEqual(made.returncode, 0, made.stderr)
        for words, sentence in (
            (("eval", "--from", file), "What runs is a run folder"),
            (("generate", "--from", file, "--prompt", "1"), "What runs is a run folder"),
            (("eval", "--from", file, "--model", model), "weights come from a run folder"),
            (("train", "--model", model, "--start", file, "--steps", 1), "weights come from a run"),
        ):  # fmt: skip
            told = shoal.run(*words, "--data", self.data)
            self.assertEqual(told.returncode, 77, told.stderr)
            self.assertIn(sentence, told.stderr)
            self.assertNotIn("net.json:parts", told.stderr)

    def test_what_planners_see_says_how_it_trains(self):
        told = shoal.run("train", "--model", self.model, "--data", self.data, "--steps", 1)
        self.assertEqual(told.returncode, 77, told.stderr)
        self.assertIn("embedding1", told.stderr)
        self.assertIn("./net.json:parts", told.stderr)
        other = self.at("gpt.json")
        with open(other, "w", encoding="ascii") as f:
            json.dump({"name": "gpt", "input": [1, 16, 1], "layers": [
                "embedding:vocab=257,width=16", "transformer:heads=4,ff=64"]}, f)
        told = shoal.run("train", "--model", other + ":parts", "--data", self.data, "--steps", 1)
        self.assertEqual(told.returncode, 77, told.stderr)
        self.assertIn("gated is off", told.stderr)


if __name__ == "__main__":
    unittest.main()
