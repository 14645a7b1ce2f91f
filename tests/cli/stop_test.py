# SPDX-License-Identifier: Apache-2.0
"""--on-term checkpoint: SIGTERM ends a run with a checkpoint and code 85, and the same command goes
on from it as if nothing had been."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

import shoal
from train_test import write_data

STEPS, AGAIN = 400, 85
KEEPS = "--on-term", "checkpoint"


class Stop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        write_data(cls.folder)
        model = {"name": "tiny", "input": [1, 6, 6], "layers": ["flatten", "dense:out=4"]}
        with open(cls.path("tiny.json"), "w", encoding="ascii") as file:
            json.dump(model, file)
        cls.train("--out", cls.path("whole"))

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder, *names)

    @classmethod
    def words(cls, *more):
        words = ["train", "--data", cls.folder, "--model", cls.path("tiny.json"), "--batch", 2]
        words += ["--epochs", 1000, "--steps", STEPS, "--workers", 2, "--no-eval", "--json"]
        return [*map(str, words), "--checkpoint-every", str(10 * STEPS), *more]

    @classmethod
    def train(cls, *more, code=0):
        done = shoal.run(*cls.words(*more))
        assert done.returncode == code, done.stderr
        return done

    def start(self, *more, before=()):
        """Two minutes of steps: whoever is asked to end is asked before the last one."""
        slow = ["--compute-ms", "300"]
        child = subprocess.Popen(
            [shoal.SHOAL, *before, *self.words(*slow, *more)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # a shell's background jobs may have it ignored
            preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL),
        )
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        return child

    def wait_for_steps(self, out):
        path = self.path(out, "metrics.jsonl")
        shoal.wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 0, 60)

    def ended(self, child, out):
        """@return the step that was written down"""
        said = child.communicate(timeout=60)
        self.assertEqual((AGAIN, ""), (child.returncode, said[0]), said[1])
        with open(self.path(out, "checkpoints", "latest"), encoding="ascii") as file:
            step = int(file.read().strip().split("-")[1])
        self.assertIn(f"asked to end: step {step} of {STEPS} is in", said[1])
        self.assertLess(step, STEPS)
        return step

    def weights(self, out):
        with open(self.path(out, "checkpoints", f"step-{STEPS}", "common.safetensors"), "rb") as f:
            return f.read()

    def test_the_launcher_is_asked(self):
        out = self.path("launcher")
        child = self.start("--out", out, *KEEPS)
        self.wait_for_steps("launcher")
        child.send_signal(signal.SIGTERM)
        self.ended(child, "launcher")
        done = self.train("--out", out, *KEEPS, "--compute-ms", "0")  # the same command, but faster
        self.assertEqual(STEPS, json.loads(done.stdout)["steps"])
        self.assertEqual(self.weights("whole"), self.weights("launcher"))

    def test_a_launcher_of_any_command_is_asked(self):
        """It learns from the ranks that they keep something, and has their code."""
        run = ("run", "-n", "2", "--", shoal.SHOAL)
        child = self.start("--out", self.path("run"), *KEEPS, before=run)
        self.wait_for_steps("run")
        child.send_signal(signal.SIGTERM)
        self.ended(child, "run")

    def test_who_is_asked_before_the_first_step(self):
        """Nothing is to be kept yet; it is no success, and the same command begins there."""
        for moment in ("lock", "run.json", "metrics.1.jsonl"):
            with self.subTest(moment=moment):
                out = self.path("early-" + moment)
                child = self.start("--out", out, *KEEPS)
                shoal.wait_until(lambda out=out, moment=moment: os.path.exists(
                    os.path.join(out, moment)))  # fmt: skip
                child.send_signal(signal.SIGTERM)
                told, said = child.communicate(timeout=60)
                self.assertEqual((AGAIN, ""), (child.returncode, told), said)
                self.assertIn("asked to end", said)
        self.train("--out", out, *KEEPS, "--compute-ms", "0")  # a first step was kept

    def test_with_start_it_goes_on_from_its_own_checkpoint(self):
        out, begun = self.path("started"), self.path("begun")
        first = self.words("--out", begun)
        first[first.index("--steps") + 1] = "1"
        done = shoal.run(*first)
        self.assertEqual(0, done.returncode, done.stderr)
        child = self.start("--out", out, "--start", begun, *KEEPS)
        self.wait_for_steps("started")
        child.terminate()
        self.ended(child, "started")
        self.train("--out", out, "--start", begun, *KEEPS, "--compute-ms", "0")
        self.train("--out", self.path("unbroken"), "--start", begun)
        self.assertEqual(self.weights("unbroken"), self.weights("started"))

    def test_one_worker_is_asked(self):
        child = self.start("--out", self.path("one"), *KEEPS)
        self.wait_for_steps("one")
        os.kill(shoal.ranks_of(child.pid)[1], signal.SIGTERM)
        self.ended(child, "one")

    def test_without_it_nothing_is_kept(self):
        child = self.start("--out", self.path("end"), "--on-term", "end")
        self.wait_for_steps("end")
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=60)
        self.assertEqual(128 + signal.SIGTERM, child.returncode)
        self.assertFalse(os.path.exists(self.path("end", "checkpoints", "latest")))

    def test_what_does_not_go_together(self):
        out = "--out", self.path("refused")
        for more, word in (
            (KEEPS, "says nothing without --out"),
            ((*out, "--on-term", "never"), "--on-term 'never'"),
            ((*out, *KEEPS, "--sync", "local_sgd:every=4"), "goes with --sync all_reduce"),
            ((*out, *KEEPS, "--sync", "param_server:servers=1,dedicated"), "--sync all_reduce"),
            ((*out, *KEEPS, "--no-exchange"), "--no-exchange"),
        ):
            self.assertIn(word, self.train(*more, code=2).stderr)
        self.assertFalse(os.path.exists(self.path("refused")))

    def test_a_run_that_is_finished_is_left_alone(self):
        out = self.path("whole")
        self.assertIn("holds a run already", self.train("--out", out, *KEEPS, code=2).stderr)


if __name__ == "__main__":
    shoal.main()
