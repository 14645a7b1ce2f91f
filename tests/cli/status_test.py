# SPDX-License-Identifier: Apache-2.0
"""shoal status: asks a job while it runs, and says so when there is none."""
import json
import os
import subprocess
import tempfile
import time
import unittest

import shoal

DEADLINE_S = 30


class Status(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.env = {"SHOAL_STATUS_DIR": os.path.join(self.folder.name, "run")}
        self.addCleanup(self.folder.cleanup)

    def status(self, *args):
        return shoal.run("status", *args, env=self.env)

    def train(self):
        data = os.path.join(self.folder.name, "data")
        r = shoal.run("data", "digits", "--out", data, "--train", 100, "--test", 100)
        self.assertEqual(r.returncode, 0, r.stderr)
        job = (
            "train --model mlp-small --workers 2 --batch 4 --compute-ms 20 --epochs 1000 --no-eval"
        )
        child = subprocess.Popen(
            [shoal.SHOAL, *job.split(), "--data", data, "--quiet"],
            env=dict(os.environ, SHOAL_JOB="night", **self.env),
            stdout=subprocess.DEVNULL,
        )
        self.addCleanup(child.wait)
        self.addCleanup(child.terminate)

    def test_a_running_job_answers(self):
        self.train()
        end = time.monotonic() + DEADLINE_S
        r = self.status("night", "--json")
        while r.returncode != 0 or min(x["ended"] for x in json.loads(r.stdout)["ranks"]) < 5:
            self.assertLess(time.monotonic(), end, r.stderr)
            r = self.status("night", "--json")
        report = json.loads(r.stdout)
        self.assertEqual(report["job"], "night")
        self.assertEqual([rank["state"] for rank in report["ranks"]], ["running", "running"])
        self.assertIn("all-reduce", report["ranks"][0]["operation"])
        table = self.status()
        self.assertEqual(table.returncode, 0, table.stderr)
        self.assertIn("job night, 2 ranks", table.stdout)
        self.assertEqual(self.status("day").returncode, 2)

    def test_no_job_and_usage(self):
        r = self.status()
        self.assertEqual(r.returncode, 2)
        self.assertIn("no job runs on this host", r.stderr)
        self.assertIn("Example:", self.status("--help").stdout)
        self.assertEqual(self.status("--timeout-ms", 0).returncode, 2)
        self.assertEqual(self.status("a", "b").returncode, 2)
        os.chmod(self.env["SHOAL_STATUS_DIR"], 0o755)
        r = self.status()
        self.assertEqual(r.returncode, 1)
        self.assertIn("not a folder of this user alone", r.stderr)


if __name__ == "__main__":
    shoal.main()
