# SPDX-License-Identifier: Apache-2.0
"""shoal status: asks a job while it runs, and says so when there is none."""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import shoal

DEADLINE_S = 60


class Status(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.env = {"SHOAL_STATUS_DIR": os.path.join(self.folder.name, "run")}
        self.addCleanup(self.folder.cleanup)

    def status(self, *args):
        return shoal.run("status", *args, env=self.env)

    def train(self, workers=2, **env):
        data = os.path.join(self.folder.name, "data")
        if not os.path.exists(data):
            r = shoal.run("data", "digits", "--out", data, "--train", 100, "--test", 100)
            self.assertEqual(r.returncode, 0, r.stderr)
        job = "train --model mlp-small --batch 4 --compute-ms 20 --epochs 1000 --no-eval"
        plain = {k: v for k, v in os.environ.items() if k != "SHOAL_JOB"}
        child = subprocess.Popen(
            [shoal.SHOAL, *job.split(), "--workers", str(workers), "--data", data, "--quiet"],
            env=dict(plain, **self.env, **env),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(child.wait)
        self.addCleanup(child.terminate)
        return child

    def until(self, condition, *args):
        """Ask until the answer is as wanted."""
        end = time.monotonic() + DEADLINE_S
        r = self.status(*args)
        while not condition(r):
            self.assertLess(time.monotonic(), end, r.stdout + r.stderr)
            r = self.status(*args)
        return r

    def sockets(self):
        return sorted(os.listdir(self.env["SHOAL_STATUS_DIR"]))

    def test_a_running_job_answers(self):
        self.train(SHOAL_JOB="night")
        r = self.until(
            lambda r: r.returncode == 0
            and min(rank["ended"] for rank in json.loads(r.stdout)["ranks"]) >= 5,
            "night",
            "--json",
        )
        report = json.loads(r.stdout)
        self.assertEqual(report["job"], "night")
        self.assertEqual([rank["state"] for rank in report["ranks"]], ["running", "running"])
        self.assertIn("all-reduce", report["ranks"][0]["operation"])
        table = self.status()
        self.assertEqual(table.returncode, 0, table.stderr)
        self.assertIn("job night, 2 ranks", table.stdout)
        self.assertEqual(self.status("day").returncode, 2)

    def test_jobs_without_a_name_are_told_apart(self):
        """Each gets a name of its own, and answers to that and to its number in the list."""
        first = self.train()

        def ranks(r):
            jobs = json.loads(r.stdout)["jobs"] if r.returncode == 0 else []
            return [len(job["ranks"]) for job in jobs]

        self.until(lambda r: ranks(r) == [2], "--json")
        second = self.train(workers=3)
        r = self.until(lambda r: ranks(r) == [2, 3], "--json")
        names = [job["job"] for job in json.loads(r.stdout)["jobs"]]
        self.assertEqual(names, [f"train-{first.pid}", f"train-{second.pid}"])
        for number, name in enumerate(names, 1):
            for place in ([name], ["--job", name], ["--job", number]):
                report = json.loads(self.status(*place, "--json").stdout)
                self.assertEqual(report["job"], name)
                self.assertEqual(len(report["ranks"]), number + 1)
        table = self.status().stdout
        self.assertRegex(table, rf"(?m)^ +1 +{names[0]} +2 ")
        self.assertRegex(table, rf"(?m)^ +2 +{names[1]} +3 ")
        for wrong in ("3", "0", "train"):
            r = self.status("--job", wrong)
            self.assertEqual(r.returncode, 2)
            self.assertIn(f"no job of the name or number '{wrong}'", r.stderr)
        self.assertEqual(self.status("a", "--job", "b").returncode, 2)

    def test_jobs_of_one_name_are_told_apart(self):
        for workers in (2, 3):
            self.train(workers, SHOAL_JOB="night")
        self.until(lambda r: r.stdout.count(" night ") == 2)
        r = self.status("night")
        self.assertEqual(r.returncode, 2)
        self.assertIn("1 (night), 2 (night); say which by its number", r.stderr)
        reports = [json.loads(self.status("--job", n, "--json").stdout) for n in (1, 2)]
        self.assertEqual(sorted(len(report["ranks"]) for report in reports), [2, 3])

    def test_what_killed_jobs_left_is_no_job(self):
        """Their sockets stay behind; they are not listed, and go with the next question."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            child = self.train(SHOAL_JOB="night")
            self.until(lambda r: r.returncode == 0, "night")
            child.send_signal(how)
            child.wait()
            r = self.until(lambda r: r.returncode == 2)  # ranks end with their launcher
            self.assertIn("no job runs on this host", r.stderr)
            self.assertEqual(self.sockets(), [])

    def test_a_job_that_was_told_to_end_leaves_nothing(self):
        child = self.train()
        self.until(lambda r: r.returncode == 0)
        self.assertEqual(len(self.sockets()), 2)
        child.terminate()
        child.wait()
        self.assertEqual(self.sockets(), [])

    def test_a_stopped_job_is_listed_and_does_not_answer(self):
        self.train(SHOAL_JOB="other")
        self.until(lambda r: r.returncode == 0, "other")
        child = self.train(SHOAL_JOB="night")
        self.until(lambda r: r.returncode == 0, "night")
        with open(f"/proc/{child.pid}/task/{child.pid}/children", encoding="ascii") as f:
            ranks = [int(pid) for pid in f.read().split()]
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in ranks])
        for pid in ranks:
            os.kill(pid, signal.SIGSTOP)
        r = self.until(lambda r: "no rank answers" in r.stdout)
        self.assertEqual(r.returncode, 6)
        self.assertIn("other", r.stdout)
        # On a busy machine the other one may be late once.
        self.until(lambda r: [job["answers"] for job in json.loads(r.stdout)["jobs"]]
                   == [True, False], "--json")  # fmt: skip
        self.assertEqual(self.status("night").returncode, 6)

    def test_no_job_and_usage(self):
        r = self.status()
        self.assertEqual(r.returncode, 2)
        self.assertIn("no job runs on this host", r.stderr)
        self.assertIn("Example:", self.status("--help").stdout)
        self.assertEqual(self.status("--timeout-ms", 0).returncode, 2)
        self.assertEqual(self.status("a", "b").returncode, 2)
        folder = self.status(self.env["SHOAL_STATUS_DIR"])
        self.assertEqual(folder.returncode, 2)
        self.assertIn("which is a folder", folder.stderr)
        os.chmod(self.env["SHOAL_STATUS_DIR"], 0o755)
        r = self.status()
        self.assertEqual(r.returncode, 1)
        self.assertIn("not a folder of this user alone", r.stderr)


if __name__ == "__main__":
    shoal.main()
