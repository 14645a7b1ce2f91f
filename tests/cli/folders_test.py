# SPDX-License-Identifier: Apache-2.0
"""Run folders: one holder, no second run over a first one, damage named and the older checkpoint
taken, metrics cut back to where a run goes on."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import shoal


def newest(out):
    with open(os.path.join(out, "checkpoints", "latest"), encoding="ascii") as file:
        return os.path.join(out, "checkpoints", file.read().strip())


def flip(path, at):
    """One bit of a file."""
    with open(path, "r+b") as file:
        file.seek(at if at >= 0 else os.path.getsize(path) + at)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))


def steps_of(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [line["step"] for line in lines if "step" in line and "epoch" not in line]


class Folders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-folders-"))
        cls.data = os.path.join(cls.folder, "data")
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 240, "--test", 20)
        assert r.returncode == 0, r.stderr
        cls.whole = os.path.join(cls.folder, "whole")
        r = shoal.run(*cls.words(cls.whole))
        assert r.returncode == 0, r.stderr

    @classmethod
    def words(cls, out, *more, workers=2):
        words = ["train", "--model", "mlp-small", "--data", cls.data, "--workers", workers]
        words += ["--batch", 12, "--epochs", 2, "--no-eval", "--quiet", "--checkpoint-every", 4]
        return [*words, "--codec", "int8:ef", "--out", out, *more]

    def out(self, name):
        return os.path.join(self.folder, name)

    def train(self, out, *more, code=0, **kwargs):
        r = shoal.run(*self.words(out, *more, **kwargs))
        self.assertEqual(code, r.returncode, r.stderr)
        return r.stderr

    def weights(self, out):
        with open(os.path.join(newest(out), "common.safetensors"), "rb") as file:
            return file.read()

    def cut(self, name):
        """A run that was stopped at its twelfth step of twenty."""
        out = self.out(name)
        self.train(out, "--steps", 12)
        return out

    def test_a_second_run_leaves_the_first_alone(self):
        before = steps_of(os.path.join(self.whole, "metrics.jsonl"))
        for workers in (1, 2):
            said = self.train(self.whole, code=2, workers=workers)
            self.assertIn("holds a run already", said)
            self.assertIn(f"--resume {self.whole}", said)
        self.assertEqual(before, steps_of(os.path.join(self.whole, "metrics.jsonl")))

    def test_two_at_once(self):
        out, other = self.out("shared"), self.cut("other")
        argv = [shoal.SHOAL, *map(str, self.words(out, "--compute-ms", 40))]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as first:
            end = time.monotonic() + 30
            metrics = os.path.join(out, "metrics.jsonl")
            while not os.path.exists(metrics) and time.monotonic() < end:
                threading.Event().wait(0.01)
            r = shoal.run(*self.words(out, "--resume", other))
            self.assertNotEqual(0, r.returncode)
            self.assertIn("is in use by another run (process ", r.stderr)
            self.assertEqual(0, first.wait(timeout=60), first.stderr.read())

    def test_going_on_is_bit_equal_and_metrics_have_each_step_once(self):
        out = self.cut("half")
        with open(os.path.join(out, "metrics.jsonl"), "a", encoding="ascii") as file:
            file.write('{"step": 13, "loss": 1}\n{"step": 14, "lo')  # killed behind the checkpoint
        self.train(out, "--resume", out)
        self.assertEqual(self.weights(self.whole), self.weights(out))
        steps = steps_of(os.path.join(out, "metrics.jsonl"))
        self.assertEqual(steps_of(os.path.join(self.whole, "metrics.jsonl")), steps)

    def test_a_damaged_checkpoint_is_named_and_the_older_one_taken(self):
        for name, file, at in (("a", "common.safetensors", -5), ("b", "rank-1.safetensors", -9),
                               ("c", "common.safetensors", 100)):
            with self.subTest(file=file, at=at):
                out = self.cut("damaged-" + name)
                flip(os.path.join(newest(out), file), at)
                said = self.train(out, "--resume", out)
                self.assertIn(f"step-12/{file}", said)
                self.assertIn("going on from", said)
                self.assertEqual(self.weights(self.whole), self.weights(out))

    def test_damage_of_all_checkpoints_is_an_error(self):
        out = self.cut("lost")
        for step in (8, 12):
            flip(os.path.join(out, f"checkpoints/step-{step}/common.safetensors"), -5)
        said = self.train(out, "--resume", out, code=1)
        self.assertIn("its bytes are not those that were written", said)

    def test_nothing_but_the_two_newest_stays(self):
        out = self.cut("left")
        with open(os.path.join(newest(out), "rank-0.safetensors.tmp77"), "wb") as file:
            file.write(b"of a process that was killed")
        self.train(out, "--resume", out)
        found = sorted(os.listdir(os.path.join(out, "checkpoints")))
        self.assertEqual(["latest", "step-16", "step-20"], found)
        for step in ("step-16", "step-20"):
            names = sorted(os.listdir(os.path.join(out, "checkpoints", step)))
            self.assertEqual(["common.safetensors", "rank-0.safetensors", "rank-1.safetensors"],
                             names)

    def test_kills_at_any_moment(self):
        """SIGKILL of all; whatever there is goes on to the same bits, or there is nothing yet."""
        for moment in range(6):
            out = self.out(f"killed-{moment}")
            argv = [shoal.SHOAL, *map(str, self.words(out, "--compute-ms", 5))]
            job = subprocess.Popen(argv, stderr=subprocess.DEVNULL, start_new_session=True)
            path = os.path.join(out, "metrics.jsonl")
            end = time.monotonic() + 30
            folder = os.path.join(out, "checkpoints", f"step-{4 * (1 + moment % 4)}")
            while not os.path.exists(folder) and time.monotonic() < end:
                pass  # as close to the moment as can be
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            if os.path.exists(os.path.join(out, "checkpoints", "latest")):
                self.train(out, "--resume", out)
            else:
                self.assertTrue(os.path.exists(path))
                shutil.rmtree(out)
                self.train(out)
            self.assertEqual(self.weights(self.whole), self.weights(out))


if __name__ == "__main__":
    shoal.main()
