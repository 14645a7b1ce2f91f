# SPDX-License-Identifier: Apache-2.0
"""Values of 1 MB. A word of the command line cannot be so long (flags_test.py); a run's own file
is where one may come from, for each option of shoal train that it keeps: a sentence, and nothing is
written."""
import hashlib
import json
import os
import re
import shutil
import tempfile
import unittest

import flags_sweep
import shoal

LONG = "x" * (1 << 20)
# What a run's file does not keep, for it says where things go and how they are told.
ELSEWHERE = {"out", "resume", "start", "log", "log-format", "circulant", "admm", "metrics",
             "metrics-token-file", "tensorboard", "trace", "trace-last"}  # fmt: skip
TWICE = {"model", "data"}  # the file describes them once more, and that counts


def as_they_stood(text):
    """Real numbers, which are kept as texts: their digits count."""
    return re.sub(r'"<real>(.*?)"', r"\1", text)


def digest_of(run):
    rest = {key: value for key, value in run.items() if key != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(as_they_stood(text).encode()).hexdigest()


class Kept(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-long-"))
        data, cls.run_folder = (os.path.join(cls.folder, name) for name in ("data", "run"))
        made = shoal.run("data", "digits", "--out", data, "--train", 40, "--test", 10)
        assert made.returncode == 0, made.stderr
        made = shoal.run("train", "--model", "mlp-small", "--data", data, "--batch", 8, "--steps",
                         2, "--no-eval", "--quiet", "--out", cls.run_folder)  # fmt: skip
        assert made.returncode == 0, made.stderr

    def kept(self):
        with open(os.path.join(self.run_folder, "run.json"), encoding="utf-8") as file:
            return json.load(file, parse_float=lambda text: f"<real>{text}")

    def write(self, folder, run):
        text = json.dumps({**run, "sha256": digest_of(run)})
        with open(os.path.join(folder, "run.json"), "w", encoding="utf-8") as file:
            file.write(as_they_stood(text))

    def resume(self, change):
        """What is said of a copy of the run, changed so; it is as it was."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            copy, run = os.path.join(folder, "run"), self.kept()
            del run["options"]["steps"]
            shutil.copytree(self.run_folder, copy)
            change(run)
            run["options"].setdefault("steps", "3")
            self.write(copy, run)
            before = flags_sweep.tree_of(folder)
            done = shoal.run("train", "--resume", copy, cwd=folder)
            same = before == flags_sweep.tree_of(folder)
        return done, same

    def refused(self, what, done, same):
        self.assertIn(done.returncode, (1, 2), (what, done.stderr[:500]))
        self.assertTrue(same, f"{what}: something was written")
        self.assertTrue(done.stderr.startswith("shoal"), (what, done.stderr[:500]))
        self.assertLess(len(done.stderr), flags_sweep.TEXT_MOST, what)
        self.assertEqual("", done.stdout, what)

    def test_the_digest_is_ours(self):
        """Else every answer below would be that of a damaged file."""
        done, same = self.resume(lambda run: None)
        self.assertEqual((0, False), (done.returncode, same), done.stderr)
        done, same = self.resume(lambda run: run["options"].update(lr="nan"))
        self.refused("lr", done, same)
        self.assertIn("--lr nan", done.stderr)

    def test_each_option_that_a_run_keeps(self):
        told = 0
        for option in flags_sweep.options_of(("train",)):
            if option.arg is None or option.name in ELSEWHERE:
                continue
            with self.subTest(option=option.name):
                value = [LONG] if option.name == "export" else LONG
                done, same = self.resume(lambda run: run["options"].update({option.name: value}))
                if option.name in TWICE:
                    self.assertEqual((0, ""), (done.returncode, done.stderr))
                    continue
                self.refused(option.name, done, same)
                named = flags_sweep.says(done.stderr, [f"--{option.name}", LONG])
                self.assertTrue(named, done.stderr)
                told += 1
        self.assertGreater(told, 30)

    def test_what_it_says_of_model_and_data(self):
        for place, name in (("model", "spec"), ("model", "name"), ("data", "path"),
                            ("cluster", "rank_0")):  # fmt: skip
            with self.subTest(place=place, name=name):
                done, same = self.resume(lambda run: run[place].update({name: LONG}))
                self.assertLess(len(done.stderr), flags_sweep.TEXT_MOST)
                if done.returncode != 0:
                    self.refused(name, done, same)


if __name__ == "__main__":
    shoal.main()
