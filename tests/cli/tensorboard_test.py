# SPDX-License-Identifier: Apache-2.0
"""shoal train --tensorboard: event files as TensorBoard has them, against the run's own metrics, by
a reader of our own and, where it is installed (make check-frameworks), by the real one."""
import importlib.util
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest

import event_reader
import shoal


class TensorBoard(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.data = os.path.join(self.folder, "data")
        made = shoal.run("data", "digits", "--out", self.data, "--train", 96, "--test", 20)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.board = os.path.join(self.folder, "boards", "night")

    def words(self, *more):
        return ["train", "--model", "mlp-small", "--data", self.data, "--batch", 8, "--tensorboard",
                self.board, *more]  # fmt: skip

    def train(self, *more):
        done = shoal.run(*self.words(*more))
        self.assertEqual(done.returncode, 0, done.stderr)

    def scalars(self, file):
        """{tag: {step: value}}, and what came before them."""
        found, others = {}, []
        for _, step, what in event_reader.events(file):
            if isinstance(what, str):
                others.append((step, what))
                continue
            for tag, value in what.items():
                self.assertNotIn(step, found.setdefault(tag, {}))
                found[tag][step] = value
        return found, others

    def lines(self, out):
        with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def check_against(self, out, found, first, last):
        """Times and bytes of each step, results of each epoch, to a float's digits."""
        single = lambda value: struct.unpack("<f", struct.pack("<f", value))[0]
        steps = {s["step"]: s for s in self.lines(out) if "step_us" in s}
        for step in range(first, last + 1):
            line = steps[step]
            for tag in ("compute", "data", "forward", "backward", "wait", "whole"):
                key = "step_us" if tag == "whole" else tag + "_us"
                self.assertAlmostEqual(found[f"step_seconds/{tag}"][step], line[key] / 1e6,
                                       delta=2e-6)  # fmt: skip
            self.assertEqual(found["sent_bytes"][step], single(line["sent_bytes"]))
        for line in (x for x in self.lines(out) if "epoch" in x and first <= x["step"] <= last):
            self.assertEqual(found["epoch/loss_train"][line["step"]], single(line["train_loss"]))
            self.assertEqual(found["epoch/accuracy_percent"][line["step"]],
                             single(line["test_accuracy"]))  # fmt: skip
        self.assertEqual(sorted(found["loss/train"]), list(range(first, last + 1)))

    def test_a_run_and_its_resumption(self):
        out = os.path.join(self.folder, "x")
        self.train("--workers", 2, "--epochs", 4, "--steps", 13, "--checkpoint-every", 5,
                   "--out", out, "--quiet")  # fmt: skip
        folder = os.path.join(self.board, "x")
        (file,) = event_reader.files(folder)
        found, others = self.scalars(file)
        self.assertEqual(others, [(0, "brain.Event:2")])
        self.check_against(out, found, 1, 13)
        self.train("--resume", out, "--steps", 20, "--quiet")
        first, second = event_reader.files(folder)
        found, others = self.scalars(second)
        start = min(found["loss/train"])
        self.assertEqual(others, [(0, "brain.Event:2"), (start, "start")])
        self.check_against(out, found, start, 20)

    def test_the_real_one_reads_the_same(self):
        if importlib.util.find_spec("tensorboard") is None:
            self.skipTest("tensorboard is not installed: make check-frameworks has it")
        out = os.path.join(self.folder, "x")
        self.train("--epochs", 4, "--steps", 13, "--checkpoint-every", 5, "--out", out, "--quiet")
        self.train("--resume", out, "--steps", 20, "--quiet")
        folder = os.path.join(self.board, "x")
        from tensorboard.backend.event_processing import event_accumulator

        real = event_accumulator.EventAccumulator(folder, size_guidance={"scalars": 0})
        real.Reload()
        self.assertEqual([e.step for e in real.Scalars("loss/train")], list(range(1, 21)))
        ours = {}
        for file in event_reader.files(folder):
            for tag, steps in self.scalars(file)[0].items():
                ours.setdefault(tag, {}).update(steps)
        for tag, steps in ours.items():
            self.assertEqual({e.step: e.value for e in real.Scalars(tag)}, steps)

    def test_another_run_is_not_mixed_in(self):
        for name, code in (("a", 0), ("b", 2)):
            out = os.path.join(self.folder, name, "x")
            done = shoal.run(*self.words("--steps", 2, "--out", out, "--quiet", "--no-eval"))
            self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn("holds another run's x", done.stderr)
        self.assertFalse(os.path.exists(out))
        self.train("--steps", 2, "--quiet", "--no-eval")
        self.train("--steps", 2, "--quiet", "--no-eval", "--workers", 2)
        self.assertEqual(len(os.listdir(self.board)), 3)  # without --out each has its own

    def test_a_killed_run_ends_with_a_whole_record(self):
        words = self.words("--workers", 1, "--epochs", 100000, "--no-eval", "--quiet", "--out",
                           os.path.join(self.folder, "x"))  # fmt: skip
        job = subprocess.Popen([shoal.SHOAL, *map(str, words)], stderr=subprocess.DEVNULL)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        folder = os.path.join(self.board, "x")

        def grown():
            there = event_reader.files(folder) if os.path.isdir(folder) else []
            return there and os.path.getsize(there[0]) > 100_000

        shoal.wait_until(grown)
        job.kill()
        job.wait()
        found, _ = self.scalars(event_reader.files(folder)[0])
        steps = sorted(found["loss/train"])
        self.assertEqual(list(range(1, steps[-1] + 1)), steps)

    def test_who_is_left_goes_on(self):
        out = os.path.join(self.folder, "x")
        words = [shoal.SHOAL, *map(str, self.words("--workers", 3, "--out", out, "--epochs", 1000,
                 "--compute-ms", 20, "--no-eval", "--quiet", "--on-loss", "reform"))]  # fmt: skip
        job = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        self.addCleanup(job.wait)
        self.addCleanup(job.terminate)
        folder = os.path.join(self.board, "x")

        def steps(number):
            there = event_reader.files(folder) if os.path.isdir(folder) else []
            try:
                return len(there) == number and max(self.scalars(there[-1])[0]["workers"])
            except (KeyError, AssertionError, struct.error):  # not yet whole
                return 0

        shoal.wait_until(lambda: steps(1))
        os.kill(shoal.ranks_of(job.pid)[0], signal.SIGKILL)
        shoal.wait_until(lambda: steps(2))
        found, others = self.scalars(event_reader.files(folder)[1])
        self.assertEqual(others[1][1], "start")
        self.assertEqual(set(found["workers"].values()), {2.0})

    def test_a_run_that_is_killed_leaves_whole_records(self):
        words = self.words("--out", os.path.join(self.folder, "x"), "--epochs", 100000, "--no-eval",
                           "--checkpoint-every", 1 << 20, "--quiet")  # fmt: skip
        folder, before = os.path.join(self.board, "x"), 0
        job = subprocess.Popen([shoal.SHOAL, *map(str, words)], stderr=subprocess.DEVNULL)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)

        def size():
            there = event_reader.files(folder) if os.path.isdir(folder) else []
            return os.path.getsize(there[0]) if there else 0

        for _ in range(4):  # each time that it has grown: at what moment is not ours to choose
            shoal.wait_until(lambda: size() > before + 4096)
            job.send_signal(signal.SIGSTOP)
            with open(event_reader.files(folder)[0], "rb") as file:
                data = file.read()
            before = len(data)
            self.assertGreater(len(list(event_reader.records(data))), 4)
            job.send_signal(signal.SIGCONT)
        job.kill()
        job.wait()
        with open(event_reader.files(folder)[0], "rb") as file:
            self.assertGreater(len(list(event_reader.records(file.read()))), 16)


if __name__ == "__main__":
    shoal.main()
