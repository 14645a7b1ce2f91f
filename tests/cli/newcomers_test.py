# SPDX-License-Identifier: Apache-2.0
"""Protocols whose replicas differ take others in: a spare, whoever was stopped and wakes up, and in
the end a job that is nobody's but the spares'."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

import shoal


class Job:
    """A job under way that may change its members; ended with the test."""

    def __init__(self, folder, data, sync, *, codec="identity", workers=3, spares=1, epochs=20,
                 timeout=20, more=()):
        self.out = tempfile.mkdtemp(dir=folder)
        words = ["train", "--model", "mlp-small", "--data", data, "--batch", 8, "--sync", sync]
        words += ["--codec", codec]
        words += ["--on-loss", "reform", "--spares", spares, "--workers", workers]
        # The end of a process proves what became of a member for a fifth of that after its last
        # word, which is long ago on a busy machine; a killed one is noticed at once all the same.
        words += ["--peer-timeout", timeout]
        words += ["--epochs", epochs, "--compute-ms", 8, "--no-eval", "--json"]
        words += more
        self.process = subprocess.Popen(
            [shoal.SHOAL, *map(str, [*words, "--out", self.out])], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        self.wait_for_steps("metrics.1.jsonl")

    def wait_for_steps(self, name):
        path = os.path.join(self.out, name)
        shoal.wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 1000)

    def events(self, kind):
        with open(os.path.join(self.out, "events.jsonl"), encoding="utf-8") as file:
            return [event for event in map(json.loads, file) if event.get("event") == kind]

    def wait_for_members(self, workers, changes):
        shoal.wait_until(lambda: [e for e in self.events("members")[changes:]
                                  if e["workers"] == workers])

    def kill(self, rank, number=signal.SIGKILL):
        """One that began with the job."""
        pid = shoal.ranks_of(self.process.pid, spares=False)[rank]
        os.kill(pid, number)
        return pid

    def end(self, seconds=120):
        stdout, stderr = self.process.communicate(timeout=seconds)
        return self.process.returncode, stdout.splitlines(), stderr


class Newcomers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-newcomers-"))
        cls.data = os.path.join(cls.folder, "data")
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 480, "--test", 40)
        assert r.returncode == 0, r.stderr

    def result(self, job, workers, lost):
        code, lines, stderr = job.end()
        self.assertEqual((0, 1), (code, len(lines)), stderr)
        result = json.loads(lines[0])
        self.assertEqual(workers, result["workers"], stderr)
        self.assertEqual(lost, len(result["lost"]), result["lost"])
        return result

    def test_a_spare_takes_the_place_of_the_killed(self):
        for sync, codec, victim in (
            ("local_sgd:every=4", "identity", 0), ("hop:graph=complete", "eden:bits=4", 2),
        ):
            with self.subTest(sync=sync):
                job = Job(self.folder, self.data, sync, codec=codec)
                job.kill(victim)
                self.result(job, 3, 1)
                last = job.events("members")[-1]
                self.assertEqual(3, last["workers"])
                self.assertGreaterEqual(last["left_out"], 0)
                self.assertTrue(os.path.exists(os.path.join(job.out, "checkpoints", "latest")))

    def test_a_spare_counts_the_steps_of_the_others(self):
        """What onebit sends follows from how many steps were taken: here they are past its warm-up.
        That the replicas stay equal is looked at every 5 steps; the spare may come too late."""
        job = Job(self.folder, self.data, "all_reduce", codec="onebit:warmup=5", workers=4,
                  more=("--optimizer", "adam:freeze=5,eps=0.1", "--lr", 1e-3, "--check-every", 5))
        job.kill(1)
        code, lines, stderr = job.end()
        self.assertEqual((0, 1), (code, len(lines)), stderr)
        result = json.loads(lines[0])
        self.assertIn(result["workers"], (3, 4), stderr)
        self.assertEqual(1, len(result["lost"]), stderr)

    def test_who_wakes_up_comes_back(self):
        job = Job(self.folder, self.data, "ad_psgd", spares=0, epochs=40, timeout=1)
        pid = job.kill(2, signal.SIGSTOP)
        job.wait_for_members(2, 0)
        os.kill(pid, signal.SIGCONT)
        job.wait_for_members(3, 1)
        self.result(job, 3, 1)

    def test_the_job_is_the_spares_own_when_they_are_left(self):
        job = Job(self.folder, self.data, "local_sgd:every=4", workers=2, spares=2,
                  epochs=25)
        for rank in range(2):
            changes = len(job.events("members"))
            job.kill(rank)
            job.wait_for_members(2, changes)
        self.result(job, 2, 1)  # of those that tell the result, nobody had seen the first loss


if __name__ == "__main__":
    shoal.main()
