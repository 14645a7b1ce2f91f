# SPDX-License-Identifier: Apache-2.0
"""shoal trace: what a job that is running did in the last seconds, as a file, and who has none."""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import shoal

DEADLINE_S = 60


class TraceLive(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.file = folder.name, os.path.join(folder.name, "now.json")
        self.env = {"SHOAL_STATUS_DIR": os.path.join(self.folder, "run")}
        self.data = os.path.join(self.folder, "data")
        made = shoal.run("data", "digits", "--out", self.data, "--train", 192, "--test", 20)
        self.assertEqual(made.returncode, 0, made.stderr)

    def job(self, name, *more):
        job = ["train", "--model", "mlp-small", "--data", self.data, "--batch", "8", "--quiet",
               "--compute-ms", "20", "--epochs", "100000", "--no-eval", *map(str, more)]
        child = subprocess.Popen([shoal.SHOAL, *job], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL,
                                 env=dict(os.environ, SHOAL_JOB=name, **self.env))  # fmt: skip
        self.addCleanup(child.wait)
        self.addCleanup(child.terminate)
        return child

    def trace(self, *more):
        return shoal.run("trace", "--out", self.file, "--timeout-ms", 10000, *more, env=self.env)

    def until(self, right, *more):
        """Ask until the answer is as wanted."""
        end = time.monotonic() + DEADLINE_S
        while not right(done := self.trace("--json", *more)):
            self.assertLess(time.monotonic(), end, done.stdout + done.stderr)
        return json.loads(done.stdout) if done.returncode == 0 else done

    def read(self):
        with open(self.file, encoding="utf-8") as file:
            return json.load(file)

    def check_file(self, told):
        trace = self.read()
        about = trace["otherData"]
        spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
        self.assertEqual(told["events"], len(spans))
        self.assertEqual(("shoal trace", True, "mlp-small"),
                         (about["made_by"], about["whole"], about["model"]))  # fmt: skip
        self.assertEqual([0, 1], [rank["rank"] for rank in about["ranks"]])
        self.assertEqual({0, 1}, {span["pid"] for span in spans})
        self.assertLessEqual({"step", "data", "forward", "backward", "wait", "exchange"},
                             {span["name"] for span in spans})  # fmt: skip
        arrows = [e for e in trace["traceEvents"] if e["ph"] == "s"]
        self.assertGreater(len(arrows), 0)

    def test_a_running_job_tells(self):
        child = self.job("night", "--workers", 2)
        self.job("other", "--workers", 1)  # keeps none, and is not the one that is asked
        def enough(done):
            told = json.loads(done.stdout) if done.returncode == 0 else {"told": 0}
            return told["told"] == 2 and told["events"] > 100

        told = self.until(enough, "--job", "night", "--last", "3600s")
        self.assertEqual(2, told["ranks"])
        self.check_file(told)
        part = self.until(lambda r: r.returncode == 0, "--job", "night", "--last", "1ms")
        self.assertLess(part["events"], told["events"])
        for self.file, says in ((os.path.join(self.folder, "none", "x.json"), "cannot write the"),
                                ("/dev/full", "cannot write the trace to /dev/full")):
            done = self.until(lambda r, says=says: says in r.stderr, "--job", "night")
            self.assertEqual(done.returncode, 1)
        self.assertIsNone(child.poll())

    def test_who_keeps_none_is_refused(self):
        self.job("alone", "--workers", 2, "--no-exchange")
        refused = lambda r: "keeps no events" in r.stderr
        done = self.until(refused, "--job", "alone")
        self.assertEqual(done.returncode, 2)
        self.assertIn("job alone keeps no events", done.stderr)
        self.assertFalse(os.path.exists(self.file))

    def test_the_members_after_a_loss_tell(self):
        child = self.job("loss", "--workers", 3, "--on-loss", "reform", "--steps", 100000)
        self.until(lambda r: r.returncode == 0 and json.loads(r.stdout)["told"] == 3)
        os.kill(shoal.ranks_of(child.pid)[2], signal.SIGKILL)

        def goes_on(done):
            if done.returncode != 0 or json.loads(done.stdout)["ranks"] != 2:
                return False
            return {"reform", "step"} <= {e["name"] for e in self.read()["traceEvents"]}

        self.until(goes_on)

    def test_words(self):
        done = self.trace("--job", "nobody-has-this-job")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no job of the name or number", done.stderr)
        for last in ("0", "-1s", "20m", "x", "86401s", "nan", " 3"):
            done = self.trace("--last", last)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"--last {last}: wanted 1ms to 86400s", done.stderr)
        self.assertIn("one job at a time", self.trace("--job", "a", "b").stderr)


if __name__ == "__main__":
    shoal.main()
