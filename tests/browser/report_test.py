# SPDX-License-Identifier: Apache-2.0
"""The page of `shoal report` in Chromium: one run, several, one with a slow rank in a lab, hostile
texts, many ranks. What is asked of every page stands in page_checks.py."""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import browser as chromium  # noqa: E402
import page_checks  # noqa: E402
import shoal  # noqa: E402

WHY = chromium.reason()
LAB = shoal.lab_works()
LONG = "a-name-that-is-as-long-as-names-of-hosts-and-folders-can-be." * 3


@unittest.skipIf(WHY, WHY)
class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-pages-"))
        cls.browser = cls.enterClassContext(chromium.Browser())
        cls.shoal("data", "digits", "--out", cls.path("data"), "--train", 240, "--test", 20)
        cls.runs = [cls.train(f"run-{i}", "--workers", 4, *more) for i, more in enumerate((
            ("--codec", "int8:ef"), ("--lr", 0.01), ("--codec", "fp16"), ("--seed", 2),
            ("--seed", 3), ("--seed", 4), ("--seed", 5)))]  # fmt: skip

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder, *names)

    @classmethod
    def shoal(cls, *words):
        done = shoal.run(*words)
        assert done.returncode == 0, done.stderr

    @classmethod
    def train(cls, name, *more):
        words = ["train", "--model", "mlp-small", "--data", cls.path("data"), "--batch", 8]
        words += ["--quiet", "--out", cls.path(name), *shoal.usual({"--epochs": 2}, more)]
        cls.shoal(*words, *more)
        return cls.path(name)

    def check(self, *folders):
        """The page of these runs, by everything that can be asked of it."""
        out = self.path("page.html")
        self.shoal("report", *folders, "--out", out)
        answers = page_checks.everything(self.browser, pathlib.Path(out).as_uri())
        for name, found in answers.items():
            with self.subTest(check=name):
                if found is None:
                    self.skipTest("axe-core is not here: make check-browser fetches it")
                self.assertFalse(found, f"{len(found)}: " + "\n".join(map(str, found[:25])))

    def test_one_run(self):
        self.check(self.runs[0])

    def test_runs_beside_each_other(self):
        self.check(*self.runs)

    @unittest.skipIf(LAB, LAB)
    def test_a_slow_rank_and_its_links(self):
        self.check(self.train("slow", "--workers", 4, "--steps", 60, "--epochs", 9, "--no-eval",
                              "--compute-ms", 5, "--lab", "rate=200mbit,slow=2:8x"))  # fmt: skip

    def copy(self, name):
        shutil.copytree(self.runs[0], self.path(name))
        return self.path(name)

    def test_long_names_and_hostile_texts(self):
        out = self.copy("x " + LONG[:150])
        with open(os.path.join(out, "events.jsonl"), "a", encoding="utf-8") as file:
            for line in (
                {"level": "warn", "rank": 1, "text": "<b>" + LONG * 4, "time": LONG},
                {"event": "slow", "culprit": 1, "cause": "compute", "host": LONG,
                 "caused_ms": 1e300},
                {"event": LONG, "workers": 10 ** 9, "time": "2026-01-01T00:00:00Z"},
            ):  # fmt: skip
                file.write(json.dumps(line) + "\n")
        with open(os.path.join(out, "metrics.jsonl"), "a", encoding="utf-8") as file:
            for line in (
                {"codec": LONG, "from_step": 21},
                {"step": 21, "loss": 1e30, "step_us": 1e9, "sent_bytes": 5, "dense_bytes": 7},
                {"link": 1, "host": LONG, "acked_bytes": 1e12, "busy_us": 1e6},
            ):
                file.write(json.dumps(line) + "\n")
        self.check(out)

    def test_many_ranks(self):
        out, ranks = self.copy("many"), 70
        with open(os.path.join(out, "metrics.1.jsonl"), encoding="utf-8") as file:
            text = file.read()
        for rank in range(4, ranks):
            with open(os.path.join(out, f"metrics.{rank}.jsonl"), "w", encoding="utf-8") as file:
                file.write(text)
        self.check(out)


if __name__ == "__main__":
    shoal.main()
