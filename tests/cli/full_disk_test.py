# SPDX-License-Identifier: Apache-2.0
"""Where a file finds no room: a sentence that names it, exit code 1, and what the training has
found is told all the same. A limit on the size of files stands for a full disk."""
import json
import os
import resource
import signal
import subprocess
import tempfile
import unittest

import shoal


def no_room(most=4096):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def no_limit():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def no_room_for_weights():
    no_room(2**18)


class FullDisk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-full-"))
        cls.data = os.path.join(cls.folder, "data")
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 240, "--test", 20)
        assert r.returncode == 0, r.stderr

    def train(self, *words, workers=2, limit=no_room):
        argv = [shoal.SHOAL, "train", "--quiet", "--json", "--model", "mlp-small", "--data",
                self.data, "--batch", 8, "--workers", workers, *words]  # fmt: skip
        return subprocess.run([*map(str, argv)], capture_output=True, text=True, timeout=60,
                              preexec_fn=limit, check=False)  # fmt: skip

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_a_trace_that_cannot_be_written_loses_no_result(self):
        for workers in (1, 2):
            with self.subTest(workers=workers):
                r = self.train("--trace", self.path("t.json"), workers=workers)
                self.assertEqual(1, r.returncode, r.stderr)
                self.assertIn("cannot write the trace to " + self.path("t.json"), r.stderr)
                self.assertEqual(30 // workers, json.loads(r.stdout)["steps"])
                self.assertFalse(os.path.exists(self.path("t.json")))

    def test_who_cannot_go_on_ends_all(self):
        """Nobody makes steps without the gradients of one who has ended."""
        r = self.train("--dump-gradients", self.path("dump"), "--epochs", 20)
        self.assertIn(r.returncode, (1, 5), r.stderr)
        self.assertEqual("", r.stdout)
        self.assertIn("step-000001.safetensors", r.stderr)
        self.assertNotIn("more ranges are ready", r.stderr)

    def test_a_checkpoint_that_finds_no_room_costs_nothing_else(self):
        """The result is told, with exit code 1, and no part of a checkpoint stays."""
        for sync in ("all_reduce", "local_sgd:every=3", "hop"):
            with self.subTest(sync=sync):
                out = self.path("run-" + sync[:3])
                every = [] if sync.startswith("local") else ["--checkpoint-every", 10]
                r = self.train("--out", out, "--sync", sync, "--epochs", 2, *every,
                               limit=no_room_for_weights)
                self.assertEqual(1, r.returncode, r.stderr)
                self.assertEqual(30, json.loads(r.stdout)["steps"])
                self.assertIn("checkpoint of step 30: cannot write " + out, r.stderr)
                if every:
                    self.assertIn("checkpoint of step 10: cannot write " + out, r.stderr)
                self.assertIn("File too large", r.stderr)
                self.assertEqual([], os.listdir(os.path.join(out, "checkpoints")))

    def one_short_of_room(self, out, sync, victim=1, behind=None, lasting=False):
        """A rank finds no room until it has said so, or to the end. Code, output, what was said.
        behind: it is short once this file is there."""
        argv = [shoal.SHOAL, "train", "--quiet", "--json", "--model", "mlp-small", "--data",
                self.data, "--batch", 8, "--workers", 2, "--steps", 45, "--epochs", 9,
                "--compute-ms", 40, "--no-eval", "--checkpoint-every", 10, "--sync", sync,
                "--out", out]  # fmt: skip
        said = []
        with subprocess.Popen([*map(str, argv)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, preexec_fn=no_limit) as job:  # fmt: skip
            self.addCleanup(job.kill)
            shoal.wait_until(lambda: job.poll() is not None or os.path.exists(
                os.path.join(out, behind or "metrics.1.jsonl")))  # fmt: skip
            rank = shoal.ranks_of(job.pid)[victim]
            resource.prlimit(rank, resource.RLIMIT_FSIZE, (2**11, resource.RLIM_INFINITY))
            for line in job.stderr:
                said.append(line)
                if "checkpoint of step 10: " in line and not lasting:
                    resource.prlimit(rank, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            return job.wait(timeout=60), job.stdout.read(), "".join(said)

    def test_a_worker_that_missed_one_writes_the_next(self):
        """Together, or each at its own time: the one that was missed is passed over, and gone."""
        for sync in ("hop", "all_reduce", "param_server:dedicated"):
            out = self.path("missed-" + sync[:3])
            with self.subTest(sync=sync):
                code, told, said = self.one_short_of_room(out, sync)
                self.assertEqual(0, code, said)
                self.assertEqual(45, json.loads(told)["steps"])
                with open(os.path.join(out, "events.jsonl"), encoding="utf-8") as file:
                    events = [json.loads(line) for line in file]
                self.assertEqual([20, 30, 40, 45], [event["step"] for event in events
                                                    if event.get("event") == "checkpoint"], said)
                self.assertEqual(["latest", "step-40", "step-45"],
                                 sorted(os.listdir(os.path.join(out, "checkpoints"))))

    def test_a_server_without_room_costs_checkpoints_alone(self):
        """Those that lack its file are withdrawn. There it is the optimiser's state of all."""
        out = self.path("server-short")
        code, told, said = self.one_short_of_room(out, "param_server:dedicated", victim=2)
        self.assertEqual(0, code, said)
        self.assertEqual(45, json.loads(told)["steps"])
        self.assertIn("rank-2.safetensors: File too large; the training goes on", said)
        self.assertEqual(["latest", "step-40", "step-45"],
                         sorted(os.listdir(os.path.join(out, "checkpoints"))))
        for step in (40, 45):
            self.assertEqual(
                ["common.safetensors", *(f"rank-{r}.safetensors" for r in range(3))],
                sorted(os.listdir(os.path.join(out, "checkpoints", f"step-{step}"))))

    def test_a_server_that_stays_without_room_leaves_one_to_go_on_from(self):
        """The newest whole one stays, however many are withdrawn, and the rest of the training
        ends as it did."""
        out = self.path("server-without")
        code, told, said = self.one_short_of_room(
            out, "param_server:dedicated", victim=2, lasting=True,
            behind="checkpoints/step-10/rank-2.safetensors")  # fmt: skip
        self.assertEqual(1, code, said)
        self.assertIn("rank 2: cannot write " + out, said)
        self.assertEqual(45, json.loads(told)["steps"])
        self.assertEqual(["latest", "step-10", "step-45"],
                         sorted(os.listdir(os.path.join(out, "checkpoints"))))
        tested = shoal.run("eval", "--from", out, "--data", self.data, "--json")
        self.assertEqual(0, tested.returncode, tested.stderr)  # the last one has all weights
        again = shoal.run("train", "--resume", out, "--quiet", "--json")
        self.assertEqual(0, again.returncode, again.stderr)
        self.assertEqual(json.loads(told)["train_loss"], json.loads(again.stdout)["train_loss"])

    def test_one_host_without_room_among_others(self):
        """Also where a lost rank would cost nothing."""
        rsh = self.path("rsh")
        with open(rsh, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\ntrap "" XFSZ\n[ "$1" = 127.0.0.1 ] || ulimit -f 1\n'
                       'exec sh -c "$2"\n')
        os.chmod(rsh, 0o700)
        for sync in ("all_reduce", "hop", "ad_psgd"):
            with self.subTest(sync=sync):
                out = self.path("host-" + sync)
                r = shoal.run("train", "--quiet", "--json", "--model", "mlp-small", "--batch", 8,
                              "--data", self.data, "--hosts", "127.0.0.1,127.0.0.2", "--sync", sync,
                              "--checkpoint-every", 10, "--out", out, env={"SHOAL_RSH": rsh})
                self.assertEqual(1, r.returncode, r.stderr)
                self.assertIn("rank 1: cannot write metrics below " + out, r.stderr)
                self.assertEqual(15, json.loads(r.stdout)["steps"])

    def test_who_is_asked_to_end_without_a_checkpoint_fails(self):
        """Exit code 85 says that the same command goes on where this one was."""
        out = self.path("asked")
        argv = [shoal.SHOAL, "train", "--quiet", "--model", "mlp-small", "--data", self.data,
                "--workers", 2, "--out", out, "--on-term", "checkpoint",
                "--compute-ms", 20, "--epochs", 1000, "--no-eval"]  # fmt: skip
        with subprocess.Popen([*map(str, argv)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True,
                              preexec_fn=no_room) as job:  # fmt: skip
            self.addCleanup(job.kill)
            shoal.wait_until(lambda: os.path.exists(os.path.join(out, "metrics.1.jsonl"))
                             and os.path.getsize(os.path.join(out, "metrics.1.jsonl")) > 0)
            job.terminate()
            said = job.communicate(timeout=60)[1]
        self.assertEqual(1, job.returncode, said)
        self.assertIn("File too large", said)


INSIDE = """set -e
mount -t tmpfs -o size=$1 none "$2"; shift
small=$1; shift
"$@" && code=0 || code=$?
if test $code = 1; then cp -a "$small" "$KEPT"; fi
exit $code
"""


class SmallDisk(unittest.TestCase):
    """A file system that is full, in a namespace of this test."""

    @classmethod
    def setUpClass(cls):
        probe = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"],
                               capture_output=True, text=True, check=False)  # fmt: skip
        if probe.returncode != 0:
            raise unittest.SkipTest("no namespaces here: " + probe.stderr.strip())
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-small-"))
        cls.data = os.path.join(cls.folder, "data")
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 240, "--test", 20)
        assert r.returncode == 0, r.stderr

    def train(self, size, *words):
        """What was said, and a copy of what was left on a disk of that size."""
        small = os.path.join(self.folder, "small")
        kept = tempfile.mkdtemp(dir=self.folder)
        os.makedirs(small, exist_ok=True)
        argv = [os.path.abspath(shoal.SHOAL), "train", "--quiet", "--json", "--model", "mlp-small",
                "--data", self.data, "--batch", 8, "--workers", 2, "--out",
                os.path.join(small, "run"), *words]  # fmt: skip
        r = subprocess.run(["unshare", "-rm", "sh", "-c", INSIDE, "sh", size, small,
                            *map(str, argv)], env=dict(os.environ, KEPT=kept),
                           capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        return r, os.path.join(kept, "small")

    def lines(self, path):
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_what_cannot_begin_leaves_nothing(self):
        r, left = self.train("4k")
        self.assertEqual(1, r.returncode, r.stderr)
        self.assertEqual("", r.stdout)
        self.assertIn("run/run.json: No space left on device", r.stderr)
        self.assertEqual([], os.listdir(left))

    def test_what_finds_no_room_is_named_and_the_result_told(self):
        """There is room for run.json and some lines: those that are there are whole."""
        r, left = self.train("20k", "--checkpoint-every", 5, "--epochs", 4)
        self.assertEqual(1, r.returncode, r.stderr)
        self.assertEqual(60, json.loads(r.stdout)["steps"])
        self.assertIn("No space left on device; the training goes on", r.stderr)
        run = os.path.join(left, "run")
        self.assertEqual([], os.listdir(os.path.join(run, "checkpoints")))
        for name in ("events.jsonl", "metrics.jsonl", "metrics.1.jsonl"):
            self.lines(os.path.join(run, name))

    def test_the_newest_checkpoint_that_found_room_is_gone_on_from(self):
        """One fits; the next ones do not. Who goes on ends as who was never short of room."""
        r, left = self.train("3200k", "--checkpoint-every", 25, "--epochs", 4, "--lr", 0.05)
        self.assertEqual(1, r.returncode, r.stderr)
        run = os.path.join(left, "run")
        checkpoints = os.listdir(os.path.join(run, "checkpoints"))
        self.assertEqual(["latest", "step-25"], sorted(checkpoints))
        steps = [line["step"] for line in self.lines(os.path.join(run, "metrics.jsonl"))
                 if "loss" in line]  # fmt: skip
        self.assertEqual(list(range(1, 61)), steps)
        again = shoal.run("train", "--resume", run, "--json", "--quiet")
        self.assertEqual(0, again.returncode, again.stderr)
        self.assertEqual(json.loads(r.stdout)["train_loss"], json.loads(again.stdout)["train_loss"])


if __name__ == "__main__":
    shoal.main()
