# SPDX-License-Identifier: Apache-2.0
"""shoal train --on-loss reform: a killed worker, rank 0 too, is replaced by a spare; a spare that
is not needed ends well; what cannot reform is refused."""
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import shoal


def rank_of(pid):
    """(rank, is a spare) of a process, by its environment; None: not of a job, or gone."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            env = dict(e.split(b"=", 1) for e in file.read().split(b"\0") if b"=" in e)
        return int(env[b"RANK"]), b"SHOAL_SPARE" in env
    except (OSError, KeyError, ValueError):
        return None


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


class Failures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.data = os.path.join(cls.folder.name, "data")
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 400, "--test", 100)
        assert r.returncode == 0, r.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def argv(self, out, *more):
        words = ["train", "--model", "mlp-small", "--data", self.data, "--workers", 3, "--batch", 8]
        words += ["--compute-ms", 10, "--out", out, "--json", *more]
        return [shoal.SHOAL] + [str(word) for word in words]

    def lose(self, victim, *more):
        out = os.path.join(self.folder.name, f"run-{victim}-{len(more)}")
        argv = self.argv(out, "--epochs", 12, "--on-loss", "reform", "--spares", 1, *more)
        with subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as job:
            metrics = os.path.join(out, "metrics.jsonl")
            end = time.monotonic() + 120
            while not os.path.exists(metrics) or os.path.getsize(metrics) < 2000:
                self.assertLess(time.monotonic(), end)
                threading.Event().wait(0.01)
            os.kill(
                next(p for p in children(job.pid) if rank_of(p) == (victim, False)), signal.SIGKILL
            )
            stdout, stderr = job.communicate(timeout=200)
            self.assertEqual(job.returncode, 0, stderr)
        return json.loads(stdout.splitlines()[-1]), stderr

    def test_a_spare_replaces_a_killed_worker(self):
        for victim in (1, 0):
            result, stderr = self.lose(victim)
            self.assertEqual(result["workers"], 3, stderr)
            self.assertIn(f"rank {victim} was killed", stderr)
            self.assertIn("goes on in epoch", stderr)

    def test_a_spare_starts_with_the_state_of_the_others(self):
        """Of a run that began with another's weights: it asks nobody for them."""
        first = os.path.join(self.folder.name, "first")
        done = subprocess.run(self.argv(first), capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        result, stderr = self.lose(2, "--start", first)
        self.assertEqual(result["workers"], 3, stderr)

    def test_a_spare_that_is_not_needed(self):
        argv = self.argv(os.path.join(self.folder.name, "calm"), "--on-loss", "reform")
        r = subprocess.run(
            argv + ["--spares", "1"], capture_output=True, text=True, timeout=200, check=False
        )
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(json.loads(r.stdout.splitlines()[-1])["workers"], 3)

    def test_usage(self):
        out = os.path.join(self.folder.name, "bad")
        r = subprocess.run(
            self.argv(out, "--spares", 1), capture_output=True, text=True, check=False
        )
        self.assertEqual(r.returncode, 2)
        self.assertIn("--on-loss reform", r.stderr)
        argv = self.argv(out, "--on-loss", "reform", "--sync", "param_server")
        r = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("--on-loss reform does not go with --sync param_server", r.stderr)


if __name__ == "__main__":
    shoal.main()
