# SPDX-License-Identifier: Apache-2.0
"""The survivor of two that stood still while the other was killed: when it looks, the dead one's
last word is no longer fresh. It goes on all the same, as the launcher has written down when that
was."""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock

import shoal

TIMEOUT_S = 4  # a word is fresh for a fifth of it


class LateSurvivor(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="shoal-late-"))
        self.enterContext(unittest.mock.patch.dict(os.environ, SHOAL_STATUS_DIR=self.folder))
        self.data = os.path.join(self.folder, "data")
        r = shoal.run("data", "digits", "--out", self.data, "--train", 240, "--test", 20)
        self.assertEqual(0, r.returncode, r.stderr)

    def try_once(self):
        """(stdout, stderr) of the job; without stdout it looked for the dead one."""
        words = ("train", "--json", "--model", "mlp-small", "--data", self.data, "--workers", 2,
                 "--batch", 8, "--epochs", 3, "--compute-ms", 20, "--on-loss", "reform",
                 "--peer-timeout", TIMEOUT_S)  # fmt: skip
        with subprocess.Popen([shoal.SHOAL, *map(str, words)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as job:  # fmt: skip
            try:
                shoal.wait_until(lambda: len(shoal.ranks_of(job.pid)) == 2 and self.steps())
                ranks = shoal.ranks_of(job.pid)
                os.kill(ranks[1], signal.SIGSTOP)
                os.kill(ranks[0], signal.SIGKILL)
                until = time.monotonic() + TIMEOUT_S / 2
                shoal.wait_until(lambda: time.monotonic() > until)
                os.kill(ranks[1], signal.SIGCONT)
                return job.communicate(timeout=40)
            except subprocess.TimeoutExpired:
                job.terminate()
                return job.communicate()

    def steps(self):
        """The job says that a rank has ended an operation."""
        r = shoal.run("status", "--json")
        jobs = json.loads(r.stdout)["jobs"] if r.returncode == 0 else []
        return any(rank["ended"] > 2 for job in jobs for rank in job["ranks"])

    def test_it_goes_on(self):
        for _ in range(4):  # the launcher may be late itself on a busy machine
            stdout, stderr = self.try_once()
            if stdout:
                break
        self.assertTrue(stdout, stderr)
        result = json.loads(stdout)
        self.assertEqual((1, [0]), (result["workers"], [one["rank"] for one in result["lost"]]))
        self.assertNotIn("minority", stderr)


if __name__ == "__main__":
    shoal.main()
