# SPDX-License-Identifier: Apache-2.0
"""events.jsonl: what happened to a run, over all of its parts and ranks, in whole lines."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import shoal


def events(out):
    """All lines, each of which has to parse."""
    with open(os.path.join(out, "events.jsonl"), encoding="utf-8") as file:
        text = file.read()
    assert text.endswith("\n"), text[-100:]
    return [json.loads(line) for line in text.splitlines()]


def named(lines, event):
    return [line for line in lines if line.get("event") == event]


class Events(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-events-"))
        cls.data = os.path.join(cls.folder, "data")
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 240, "--test", 20)
        assert r.returncode == 0, r.stderr
        cls.whole = os.path.join(cls.folder, "whole")
        r = shoal.run(*cls.words(cls.whole))
        assert r.returncode == 0, r.stderr

    @classmethod
    def words(cls, out, *more, workers=2):
        words = ["train", "--model", "mlp-small", "--data", cls.data, "--workers", workers]
        return [*words, "--batch", 12, "--epochs", 2, "--quiet", "--out", out, *more]

    def copy(self, name):
        out = os.path.join(self.folder, name)
        shutil.copytree(self.whole, out)
        return out

    def go_on(self, out):
        r = shoal.run("train", "--resume", out, "--epochs", 3, "--quiet")
        self.assertEqual(0, r.returncode, r.stderr)
        return events(out)

    def test_a_run_from_its_beginning_to_its_end(self):
        lines = events(self.whole)
        self.assertEqual(["begin", "checkpoint", "checkpoint", "end"], [x["event"] for x in lines])
        self.assertTrue(all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", x["time"])
                            for x in lines))
        self.assertEqual(sorted(x["time"] for x in lines), [x["time"] for x in lines])
        begin, first, _, end = lines
        self.assertEqual((0, 20, 2), (begin["step"], begin["steps"], begin["workers"]))
        self.assertEqual(10, first["step"])
        self.assertGreater(first["seconds"], 0)
        self.assertEqual((20, 2, 0), (end["step"], end["workers"], end["lost"]))
        self.assertGreater(end["train_loss"], 0)
        self.assertIsNotNone(end["test_accuracy"])

    def test_a_run_that_goes_on_adds_to_it(self):
        out = self.copy("longer")
        lines = self.go_on(out)
        self.assertEqual(events(self.whole), lines[:4])
        self.assertEqual(["resume", "checkpoint", "end"], [x["event"] for x in lines[4:]])
        self.assertEqual((20, 30), (lines[4]["step"], lines[4]["steps"]))

    def test_what_a_crash_left_goes(self):
        for name, left in (("half", b'{"time":"2026'), ("zeros", bytes(4096)),
                           ("more", b'{"time":"x"}\n{"ti\n{"time":"y"}\n')):  # fmt: skip
            with self.subTest(left=name):
                out = self.copy(name)
                with open(os.path.join(out, "events.jsonl"), "ab") as file:
                    file.write(left)
                self.assertEqual(1, len(named(self.go_on(out), "resume")))

    def test_damage_that_was_passed_over_is_told(self):
        out = self.copy("damaged")
        with open(os.path.join(out, "checkpoints/step-20/common.safetensors"), "r+b") as file:
            file.seek(-5, os.SEEK_END)
            file.write(b"!")
        warnings = [x for x in self.go_on(out) if x.get("level") == "warn"]
        self.assertTrue(any("step-20/common.safetensors" in x["text"] for x in warnings), warnings)

    def test_warnings_are_told_also_where_the_log_is_quiet(self):
        out = self.copy("quiet")
        os.truncate(os.path.join(out, "checkpoints/step-20/rank-1.safetensors"), 100)
        r = shoal.run("train", "--resume", out, "--epochs", 3, "--quiet",
                      env={"SHOAL_LOG": "error"})  # fmt: skip
        self.assertEqual((0, ""), (r.returncode, r.stderr))
        warnings = [x for x in events(out) if x.get("level") == "warn"]
        self.assertTrue([x for x in warnings if x["rank"] == 1 and "rank-1" in x["text"]], warnings)

    def test_members_that_change(self):
        out = os.path.join(self.folder, "members")
        words = self.words(out, "--compute-ms", 10, "--on-loss", "reform", "--epochs", 12,
                           workers=3)  # fmt: skip
        words[words.index("--epochs") : words.index("--epochs") + 2] = []
        with subprocess.Popen([shoal.SHOAL, *map(str, words)], stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, text=True) as job:  # fmt: skip
            latest = os.path.join(out, "checkpoints", "latest")
            shoal.wait_until(lambda: os.path.exists(latest))
            os.kill(shoal.ranks_of(job.pid)[0], signal.SIGKILL)
            stderr = job.communicate(timeout=60)[1]
        self.assertEqual(0, job.returncode, stderr)
        lines = events(out)
        change = named(lines, "members")
        self.assertEqual([(2, 1)], [(x["workers"], x["members_epoch"]) for x in change])
        self.assertEqual([(2, 1)], [(x["workers"], x["lost"]) for x in named(lines, "end")])
        said = {x["rank"] for x in lines if "rank 0 " in x.get("text", "")}
        self.assertEqual({1, 2}, said, "both have lost rank 0")

    def test_nothing_is_written_through_a_link(self):
        out = self.copy("link")
        target = os.path.join(self.folder, "target")
        with open(target, "w", encoding="ascii") as file:
            file.write("mine\n")
        os.unlink(os.path.join(out, "events.jsonl"))
        os.symlink(target, os.path.join(out, "events.jsonl"))
        r = shoal.run("train", "--resume", out, "--epochs", 3, "--quiet")
        self.assertEqual(1, r.returncode)
        self.assertIn("events.jsonl", r.stderr)
        with open(target, encoding="ascii") as file:
            self.assertEqual("mine\n", file.read())


if __name__ == "__main__":
    shoal.main()
