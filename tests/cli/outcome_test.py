# SPDX-License-Identifier: Apache-2.0
"""What becomes of a job whose rank is killed or stopped: protocols that go on end well, the lowest
rank that is left tells the result, once, and names whom it lost; others end with the culprit's
name."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

import shoal

GO_ON = (
    ("local_sgd:every=4", 2),
    ("diloco:every=4", 0),
    ("noloco:every=4", 0),
    ("ripples:smart", 1),
    ("ripples:smart,laggards", 0),  # the controller
    ("ad_psgd", 3),
    ("d_psgd", 0),
    ("hop", 2),
    ("param_server:dedicated,async", 1),
)


class Job:
    """A job of four workers under way; ended with the test."""

    def __init__(self, folder, data, sync, *, run=False, workers=4, more=()):
        self.out = tempfile.mkdtemp(dir=folder)
        words = ["train", "--model", "mlp-small", "--data", data, "--batch", 8]
        words += shoal.usual({"--epochs": 20}, more)
        words += ["--compute-ms", 8, "--peer-timeout", 1, "--no-eval", "--json", "--out", self.out]
        words += ["--sync", sync, *more]
        if run:
            words = ["run", "-n", workers, "--", shoal.SHOAL, *words]
        else:
            words += ["--workers", workers]
        self.process = subprocess.Popen(
            [shoal.SHOAL, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )
        metrics = os.path.join(self.out, "metrics.1.jsonl")
        shoal.wait_until(lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 1000)

    def pid(self, rank):
        return shoal.ranks_of(self.process.pid)[rank]

    def signal(self, rank, number):
        pid = self.pid(rank)
        os.kill(pid, number)
        return pid

    def end(self, seconds=60):
        stdout, stderr = self.process.communicate(timeout=seconds)
        return self.process.returncode, stdout.splitlines(), stderr


class Outcome(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-outcome-"))
        cls.data = os.path.join(cls.folder, "data")
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 320, "--test", 40)
        assert r.returncode == 0, r.stderr

    def job(self, *args, **kwargs):
        return Job(self.folder, self.data, *args, **kwargs)

    def check_loss(self, ended, victim, why):
        code, lines, stderr = ended
        self.assertEqual(0, code, stderr)
        self.assertEqual(1, len(lines), lines)
        result = json.loads(lines[0])
        self.assertEqual(3, result["workers"], stderr)
        self.assertEqual([victim], [loss["rank"] for loss in result["lost"]])
        self.assertIn(why, result["lost"][0]["why"])
        self.assertGreater(result["lost"][0]["after_s"], 0)
        self.assertNotEqual("", result["lost"][0]["host"])

    def assert_all_epochs(self, job):
        with open(os.path.join(job.out, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertIn(20, [line.get("epoch") for line in lines])

    def test_survivors_end_well_and_name_the_killed(self):
        for sync, victim in GO_ON:
            with self.subTest(sync=sync):
                job = self.job(sync)
                job.signal(victim, signal.SIGKILL)
                self.check_loss(job.end(), victim, f"rank {victim} (host ")
                latest = os.path.join(job.out, "checkpoints", "latest")
                self.assertTrue(os.path.exists(latest), "the survivors' checkpoint")
                self.assert_all_epochs(job)

    def test_under_shoal_run_ranks_tell_the_launcher(self):
        for victim in (0, 2):
            job = self.job("hop", run=True)
            job.signal(victim, signal.SIGKILL)
            self.check_loss(job.end(), victim, f"rank {victim} (host ")

    def test_with_reform_the_others_go_on_without_a_spare(self):
        job = self.job("all_reduce", more=("--on-loss", "reform"))
        job.signal(0, signal.SIGKILL)
        self.check_loss(job.end(), 0, "rank 0 (host ")
        self.assert_all_epochs(job)

    def test_who_cannot_go_on_names_the_culprit(self):
        for sync, victim in (("all_reduce", 2), ("param_server:dedicated,async", 4)):
            job = self.job(sync)
            job.signal(victim, signal.SIGKILL)
            code, lines, stderr = job.end()
            self.assertEqual((5, []), (code, lines), stderr)
            self.assertIn(f"rank {victim}" if victim < 4 else "server 4", stderr)

    def test_a_stopped_rank_is_left_behind(self):
        job = self.job("local_sgd:every=4")
        pid = job.signal(1, signal.SIGSTOP)
        self.check_loss(job.end(), 1, "its host answers, its process does not")
        self.assertFalse(os.path.exists(f"/proc/{pid}"), "the stopped rank is still there")

    def test_whoever_wakes_up_too_late_learns_it(self):
        job = self.job("hop", more=("--epochs", 50))
        pid = job.signal(2, signal.SIGSTOP)
        self.assertIn("rank 2", job.process.stderr.readline())  # a survivor has given it up
        os.kill(pid, signal.SIGCONT)
        ended = job.end()
        self.check_loss(ended, 2, "rank 2 (host ")
        self.assertIn("rank 2: this process stood still for", ended[2])

    def test_a_graph_that_deaths_have_cut_is_named(self):
        for sync in ("hop:graph=ring", "ad_psgd:graph=ring"):
            job = self.job(sync, workers=6)
            victims = [job.pid(1), job.pid(4)]
            for pid in victims:
                os.kill(pid, signal.SIGKILL)
            code, lines, stderr = job.end()
            self.assertEqual((5, []), (code, lines), stderr)
            self.assertIn("no way leads from worker 0 to worker 2", stderr)


if __name__ == "__main__":
    shoal.main()
