# SPDX-License-Identifier: Apache-2.0
"""shoal generate: greedy, it says what a bigram model's own weights say; draws repeat by seed and
follow the odds; what does not fit is said."""
import collections
import glob
import json
import math
import os
import shutil
import tempfile
import unittest

import numpy

import shoal
from data_text_test import read_safetensors

CYCLE = "abcdefgh"  # each character decides the next one


def weights_of(path):
    """Of the bigram model: [next][this], [next]."""
    tensors = {n: t for n, t in read_safetensors(path).items() if not n.startswith("optimizer.")}
    bias, weights = sorted(tensors.values(), key=len)
    return weights.reshape(257, 257), bias


class Generate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-test-"))
        cls.text = os.path.join(cls.folder, "a.txt")
        with open(cls.text, "w", encoding="ascii") as f:
            f.write(CYCLE * 400)
        cls.bytes, cls.byte_run = cls.train("bytes", "onehot:classes=257",
                                            "framewise:out=257")  # fmt: skip
        cls.chars, cls.char_run = cls.train("characters", "onehot", "lstm:out=24",
                                            "framewise:out=64")  # fmt: skip

    @classmethod
    def train(cls, tokens, *layers):
        data, run, model = (os.path.join(cls.folder, tokens + end) for end in ("", "-run", ".json"))
        made = shoal.run("data", "text", "--out", data, "--tokens", tokens, "--length", 16,
                         cls.text)  # fmt: skip
        assert made.returncode == 0, made.stderr
        with open(model, "w", encoding="ascii") as f:
            json.dump({"name": "m", "input": [1, 16, 1], "layers": layers}, f)
        done = shoal.run("train", "--model", model, "--data", data, "--batch", 8, "--epochs", 4,
                         "--optimizer", "adam", "--lr", 0.05, "--out", run, "--quiet")  # fmt: skip
        assert done.returncode == 0, done.stderr
        return data, run

    def ask(self, *args):
        said = shoal.run("generate", "--json", *args)
        self.assertEqual(said.returncode, 0, said.stderr)
        return json.loads(said.stdout)

    def test_greedy_is_the_largest_score(self):
        path = glob.glob(self.byte_run + "/checkpoints/step-*/common.safetensors")[-1]
        weights, bias = weights_of(path)
        scores = weights + bias[:, None]
        want, at = [], ord("h")
        for _ in range(30):
            at = int(numpy.argmax(scores[:, at]))
            want.append(at)
            if at == 256:
                break
        said = self.ask("--from", self.byte_run, "--prompt", "Why h", "--tokens", 30,
                        "--temperature", 0)  # fmt: skip
        self.assertEqual(said["tokens"], want)
        self.assertEqual((said["prompt"], said["prompt_tokens"]), ("Why h", 5))
        self.assertIn("abcdefgh", said["text"])
        plain = shoal.run("generate", "--from", self.byte_run, "--prompt", "Why h", "--tokens", 30,
                          "--temperature", 0)  # fmt: skip
        self.assertEqual(plain.stdout, said["prompt"] + said["text"] + "\n")

    def test_it_sees_only_as_much_as_it_was_trained_on(self):
        said = self.ask("--from", self.char_run, "--prompt", CYCLE * 5, "--tokens", 40,
                        "--temperature", 0)  # fmt: skip
        self.assertEqual(said["text"], CYCLE * 5)

    def test_draws_repeat_and_follow_the_odds(self):
        args = ("--from", self.byte_run, "--prompt", "c", "--tokens", 200, "--temperature", 8)
        one, again, other = (self.ask(*args, "--seed", seed) for seed in (1, 1, 2))
        self.assertEqual(one["tokens"], again["tokens"])
        self.assertNotEqual(one["tokens"], other["tokens"])
        self.assertEqual(self.ask(*args, "--top-k", 1)["tokens"],
                         self.ask(*args[:-1], 0)["tokens"])  # fmt: skip
        # how often each token is first, against the softmax of the scores after "c"
        path = glob.glob(self.byte_run + "/checkpoints/step-*/common.safetensors")[-1]
        weights, bias = weights_of(path)
        scores = (weights[:, ord("c")] + bias).astype(float) / 2
        odds = numpy.exp(scores - scores.max())
        best = numpy.argsort(-odds)[:2]
        share = odds[best[0]] / odds[best].sum()
        counts = collections.Counter(
            self.ask("--from", self.byte_run, "--prompt", "c", "--tokens", 1, "--temperature", 2,
                     "--top-k", 2, "--seed", seed)["tokens"][0]
            for seed in range(1, 61)
        )  # fmt: skip
        self.assertLessEqual(set(counts), set(best.tolist()))
        spread = 4 * math.sqrt(share * (1 - share) / 60) + 0.01
        self.assertAlmostEqual(counts[int(best[0])] / 60, share, delta=spread)

    def test_what_does_not_fit_is_said(self):
        empty = os.path.join(self.folder, "empty")
        os.makedirs(empty, exist_ok=True)
        bare = os.path.join(self.folder, "bare")
        shutil.copytree(self.chars, bare, dirs_exist_ok=True)
        os.unlink(os.path.join(bare, "tokenizer.json"))
        for args, code, part in (
            ((), 2, "which run? --from DIR"),
            (("--from", empty), 1, "no checkpoint in " + empty),
            (("--from", "/no/such"), 1, "/no/such"),
            (("--from", self.char_run, "--prompt", "caf\u00e9"), 2, "other than the 63"),
            (("--from", self.char_run), 2, "nothing to begin with"),
            (("--from", self.char_run, "--data", bare, "--prompt", "a"), 1, "tokenizer.json"),
            (("--from", self.char_run, "--data", self.bytes, "--prompt", "a"), 2, "64 classes"),
            (("--from", self.byte_run, "--temperature", "-1"), 2, "is not taken"),
            (("--from", self.byte_run, "--top-k", "0"), 2, "is not taken"),
        ):
            said = shoal.run("generate", *args)
            self.assertIn(part, said.stderr, args)
            self.assertEqual(said.returncode, code, (args, said.stderr))
            self.assertEqual(said.stdout, "")


if __name__ == "__main__":
    unittest.main()
