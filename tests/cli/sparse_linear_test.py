# SPDX-License-Identifier: Apache-2.0
"""Logistic regression and linear support vector machines on svmlight's texts: the losses of four
workers, by every way that gradients travel, are those of NumPy's double on the same samples."""
import json
import os
import random
import shutil
import tempfile
import unittest

import shoal

try:
    import numpy as np
except ImportError:
    np = None

FEATURES, TRAIN, TEST, STEPS, LR, DECAY = 600, 400, 80, 12, 1.0, 1e-3
WORKERS = 4


def write_text(path, count, seed, classes):
    """Samples of 1 to 12 features whose class follows from a weight per feature and class; returns
    them with all their zeros, and the classes' numbers."""
    draw, weights = random.Random(seed), random.Random(99)
    law = [[weights.gauss(0, 1) for _ in classes] for _ in range(FEATURES)]
    x, y = [[0.0] * FEATURES for _ in range(count)], []
    with open(path, "w", encoding="ascii") as f:
        for row in x:
            ids = sorted(draw.sample(range(FEATURES), draw.randint(1, 12)))
            for i in ids:
                row[i] = draw.randint(-300, 300) / 100
            score = [sum(row[i] * law[i][c] for i in ids) for c in range(len(classes))]
            y.append(score.index(max(score)))
            pairs = " ".join(f"{i + 1}:{row[i]}" for i in ids)
            f.write(f"{classes[y[-1]]} {pairs}\n")
    return x, y


def binary(x, y, loss_of):
    """One vector of weights and a bias, y -1 or 1; steps of gradient descent on all samples. The
    model's two rows move apart at twice the rate."""
    x = np.hstack([np.array(x), np.ones((len(x), 1))])
    sign, w, losses = 2.0 * np.array(y) - 1, np.zeros(FEATURES + 1), []
    for _ in range(STEPS):
        loss, slope = loss_of(sign * (x @ w))
        losses.append(loss.mean())
        w -= LR * (2 * (x.T @ (slope * sign)) / len(x) + DECAY * w)
    return losses


def logistic(margin):
    return np.log1p(np.exp(-margin)), -1 / (1 + np.exp(margin))


def hinge(margin):
    return np.maximum(0, 1 - margin), -(margin < 1).astype(float)


def several(x, y, classes):
    """Crammer and Singer's loss of several classes."""
    x = np.hstack([np.array(x), np.ones((len(x), 1))])
    w, losses, at = np.zeros((FEATURES + 1, classes)), [], np.arange(len(x))
    for _ in range(STEPS):
        scores = x @ w
        others = scores.copy()
        others[at, y] = -np.inf
        rival = others.argmax(1)
        margin = scores[at, y] - scores[at, rival]
        losses.append(np.maximum(0, 1 - margin).mean())
        slope = np.zeros_like(scores)
        slope[at, y] -= margin < 1
        slope[at, rival] += margin < 1
        w -= LR * (x.T @ slope / len(x) + DECAY * w)
    return losses


class Linear(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if np is None:
            raise unittest.SkipTest("python3-numpy is not installed")
        cls.folder = tempfile.mkdtemp(prefix="shoal-linear-")
        cls.model = f"vocab={FEATURES},length=12"
        cls.x, cls.y = cls.make("two", (-1, 1))
        cls.x3, cls.y3 = cls.make("three", (2, 4, 9))

    @classmethod
    def tearDownClass(cls):
        if np is not None:
            shutil.rmtree(cls.folder)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def make(cls, name, classes):
        text, tests = cls.path(name + ".txt"), cls.path(name + ".t")
        x, y = write_text(text, TRAIN, 5, classes)
        write_text(tests, TEST, 6, classes)
        made = shoal.run("data", "svmlight", "--from", text, "--test-from", tests, "--vocab",
                         FEATURES, "--out", cls.path(name))
        assert made.returncode == 0, made.stderr
        assert f"{len(classes)} classes, {FEATURES} features" in made.stdout, made.stdout
        return x, y

    def train(self, model, data, *args, code=0):
        words = {"--model": model, "--data": self.path(data), "--workers": WORKERS,
                 "--batch": TRAIN // WORKERS, "--epochs": STEPS, "--lr": LR,
                 "--optimizer": f"sgd:momentum=0,decay={DECAY}"}  # fmt: skip
        given = () if "--resume" in args else shoal.usual(words, args)
        r = shoal.run("train", *given, *args, "--quiet")
        self.assertEqual(r.returncode, code, r.stderr)
        return r

    def losses(self, model, data, *args):
        """Of each step, which is an epoch: all samples are in it."""
        out = tempfile.mkdtemp(dir=self.folder)
        self.train(model, data, *args, "--out", out)
        with open(os.path.join(out, "metrics.jsonl"), encoding="ascii") as f:
            lines = [json.loads(line) for line in f]
        return [line["train_loss"] for line in lines if "train_loss" in line]

    def check(self, want, got):
        self.assertEqual(len(got), STEPS)
        self.assertLess(want[-1], 0.8 * want[0])
        for step, (a, b) in enumerate(zip(want, got)):
            self.assertAlmostEqual(a, b, delta=1e-5, msg=f"step {step}")

    def test_losses_are_those_of_numpy(self):
        coo = ("--collective", "omnireduce:input=coo")
        others = (("--sync", "param_server"), *(("--collective", way) for way in
                  ("ring", "omnireduce:block=64", "auto", "gather")))  # fmt: skip
        for name, loss_of, ways in (("logistic", logistic, (coo,)), ("svm", hinge, (coo, *others))):
            want = binary(self.x, self.y, loss_of)
            for way in ways:
                self.check(want, self.losses(f"{name}:{self.model}", "two", *way))

    def test_several_classes(self):
        path = self.path("three.json")
        with open(path, "w", encoding="ascii") as f:
            json.dump({"name": "three", "input": [1, 12, 2],
                       "layers": [f"sparse:vocab={FEATURES},out=3", "hinge"]}, f)
        got = self.losses(path, "three", "--collective", "omnireduce:input=coo")
        self.check(several(self.x3, self.y3, 3), got)
        r = self.train(f"svm:{self.model}", "three", code=2)
        self.assertIn("has 2 classes, the data in", r.stderr)

    def test_a_run_goes_on_and_is_tested(self):
        model, out, whole = f"svm:{self.model}", self.path("part"), self.path("whole")
        words = ("--batch", 20, "--collective", "omnireduce:input=coo", "--json")
        done = self.train(model, "two", *words, "--epochs", 4, "--out", whole)
        self.train(model, "two", *words, "--epochs", 4, "--steps", 11, "--out", out)
        on = self.train(model, "two", "--resume", out, "--epochs", 4, "--steps", 20, "--json")
        last = [json.loads(r.stdout) for r in (done, on)]
        for key in ("test_loss", "test_accuracy", "train_loss"):
            self.assertEqual(last[0][key], last[1][key], key)
        r = shoal.run("eval", "--from", out, "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        tested = json.loads(r.stdout)["float32"]
        self.assertAlmostEqual(tested["accuracy"], last[0]["test_accuracy"])

    def test_rows_that_no_sample_has_stay_at_home(self):
        args = ("--batch", 4, "--epochs", 1, "--json")
        ring, coo = (json.loads(self.train(f"svm:{self.model}", "two", *args, "--collective",
                                           way).stdout)
                     for way in ("ring", "omnireduce:input=coo"))  # fmt: skip
        self.assertLess(coo["payload_bytes_per_step"], 0.45 * ring["payload_bytes_per_step"])
        self.assertAlmostEqual(coo["train_loss"], ring["train_loss"], delta=1e-5)

    def test_what_does_not_fit_is_refused(self):
        digits = self.path("digits")
        made = shoal.run("data", "digits", "--out", digits, "--train", 20, "--test", 10)
        self.assertEqual(made.returncode, 0, made.stderr)
        for args, text in (
            (("svm:length=3", "two"), f"Make it as large: --model svm:vocab={FEATURES},length=12"),
            (("svm:vocab=9", "two"), "takes 1024 of 9 features in a sample"),
            (("mlp-small", "two"), "the data in"),
            (("svm", "digits"), "takes features and their values"),
            ((f"svm:{self.model}", "two", "--label-smoothing", 0.1), "has no label to smooth"),
            ((f"svm:{self.model}", "two", "--augment", "flip"), "--augment is for images"),
        ):
            r = self.train(*args, "--workers", 1, code=2)
            self.assertIn(text, r.stderr)
        r = self.train("svm", "two", "--label-smoothing", 0.1, "--dry-run", code=2)
        self.assertIn("the loss of model svm has no labels to smooth", r.stderr)

    def test_bad_texts_and_usage(self):
        bad = self.path("bad.txt")
        with open(bad, "w", encoding="ascii") as f:
            f.write("+1 0:1\n-1 1:1\n")
        for args, text in (
            ((), "of what? --from FILE"),
            (("--from", bad), "where to? --out DIR"),
            (("--from", bad, "--out", self.path("x")), "say so: --zero-based"),
            (("--from", bad, "--out", self.path("x"), "--test", "2"), "--test '2'"),
            (("--from", self.folder, "--out", self.path("x")), "not a regular file"),
        ):
            r = shoal.run("data", "svmlight", *args)
            self.assertIn(r.returncode, (1, 2), args)
            self.assertIn(text, r.stderr)
        self.assertFalse(os.path.exists(self.path("x")))


if __name__ == "__main__":
    shoal.main()
