# SPDX-License-Identifier: Apache-2.0
"""shoal explore: real trainings of tiny networks, its log, and what it refuses."""
import json
import os
import random
import shutil
import struct
import tempfile
import unittest

import shoal

FRAMES, VALUES, CLASSES = 8, 6, 4


def write_split(path, count, seed):
    """Sequences whose values tell the class, in noise (docs/sequence-models.md)."""
    draw = random.Random(seed)
    labels = [draw.randrange(CLASSES) for _ in range(count * FRAMES)]
    values = [draw.gauss(2.0 * (v == label), 0.5) for label in labels for v in range(VALUES)]
    head = struct.pack("<8s6IQ", b"SHOALSEQ", 1, 0, VALUES, CLASSES, count, 0, count * FRAMES)
    with open(path, "wb") as file:
        file.write(head + struct.pack(f"<{count}I", *[FRAMES] * count))
        file.write(struct.pack(f"<{len(labels)}H", *labels))
        file.write(struct.pack(f"<{len(values)}f", *values))


class Explore(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="shoal-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        write_split(cls.path("train.shoalseq"), 48, 1)
        write_split(cls.path("test.shoalseq"), 24, 2)
        for cell in ("lstm", "gru"):
            layers = [f"{cell}:out=32", f"framewise:out={CLASSES}"]
            with open(cls.path(cell + ".json"), "w", encoding="ascii") as file:
                about = {"name": cell, "input": [1, FRAMES, VALUES], "layers": layers}
                json.dump(about, file)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def explore(self, *args, code=0):
        r = shoal.run(
            *("explore", "--lstm", self.path("lstm.json"), "--gru", self.path("gru.json")),
            *("--data", self.folder, "--batch", 8, "--epochs", 1, *args),
        )
        self.assertEqual(r.returncode, code, r.stderr)
        return r

    def test_every_trial_is_logged_and_the_choice_can_be_trained(self):
        out = self.path("search")
        r = self.explore("--limit", 100, "--memory", 60000, "--out", out, "--json")
        log = json.loads(r.stdout)
        with open(os.path.join(out, "explore.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), log)
        trials = log["trials"]
        self.assertLessEqual(len(trials), 5)
        self.assertEqual([t["for"] for t in trials[:2]], ["whole LSTM", "smallest blocks"])
        self.assertTrue(all(t["kept"] for t in trials[1:]))  # 100 points hold anything
        # 4 x 32 x 6 and 4 x 32 x 32 values, a bias, and 4 x 32 + 4 scores
        self.assertEqual(trials[0]["weights"], 768 + 4096 + 128 + 132)
        self.assertLessEqual(trials[1]["weights"] * 12, 0.8 * 60000)
        self.assertGreater(trials[0]["weights"] * 12, 0.8 * 60000)
        self.assertEqual(log["chosen"]["model"], trials[-1]["model"])
        self.assertEqual(log["chosen"]["cell"], "gru")
        for i in range(len(trials)):
            self.assertTrue(os.path.exists(os.path.join(out, f"trial-{i + 1}", "metrics.jsonl")))
        r = shoal.run(
            *("train", "--model", log["chosen"]["model"], "--data", self.folder, "--json"),
            *("--start", os.path.join(out, f"trial-{len(trials)}"), "--steps", 1),
        )
        self.assertEqual(json.loads(r.stdout)["params"], log["chosen"]["weights"], r.stderr)

    def test_a_limit_that_nothing_holds_is_told(self):
        r = self.explore("--limit", 0, "--baseline", 0, code=1)
        self.assertIn("Take larger layers", r.stdout)
        self.assertIn("smallest blocks", r.stdout)

    def test_admm_trains_each_trial(self):
        out = self.path("admm")
        self.explore(
            *("--limit", 100, "--baseline", 50, "--trials", 1, "--out", out),
            *("--admm", "dense=1,iterations=2"),
        )
        for part in ("dense", "admm", "."):
            latest = os.path.join(out, "trial-1", part, "checkpoints", "latest")
            self.assertTrue(os.path.exists(latest), latest)

    def test_bad_usage(self):
        for args, words in (
            (["--trials", 17], "17"),
            (["--admm", "dense=1"], "--out"),
            (["--limit", "x"], "x"),
        ):
            self.assertIn(words, self.explore(*args, code=2).stderr)
        r = shoal.run("explore", "--lstm", "mlp", "--data", self.folder)
        self.assertEqual((2, True), (r.returncode, "no lstm or gru" in r.stderr), r.stderr)
        r = self.explore("--memory", 100, code=2)
        self.assertIn("do not fit", r.stderr)
        r = shoal.run("explore", "--data", "/no/such/dir")
        self.assertEqual(1, r.returncode)
        self.assertIn("/no/such/dir", r.stderr)
        r = shoal.run("explore", "--help")
        self.assertIn("Example: shoal explore", r.stdout)


if __name__ == "__main__":
    unittest.main()
