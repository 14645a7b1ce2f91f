# SPDX-License-Identifier: Apache-2.0
"""Ripples' group generator is the lowest live worker: it is killed, then its successor as well, and
the others go on with groups from the next one, to the end."""
import json
import os
import signal
import subprocess
import tempfile
import unittest
import unittest.mock

import shoal

EPOCHS = 40  # of 7 steps: time enough to look, on a busy machine, too


class Controller(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="shoal-controller-"))
        self.enterContext(unittest.mock.patch.dict(os.environ, SHOAL_STATUS_DIR=self.folder))
        self.data = os.path.join(self.folder, "data")
        r = shoal.run("data", "digits", "--out", self.data, "--train", 240, "--test", 20)
        self.assertEqual(0, r.returncode, r.stderr)

    def ended(self):
        """Operations that each rank has ended, by rank, as the job says."""
        r = shoal.run("status", "--json")
        jobs = json.loads(r.stdout)["jobs"] if r.stdout else []  # a dead rank is an exit code, too
        return {rank["rank"]: rank["ended"] for job in jobs for rank in job["ranks"]}

    def go_on(self, live, beyond):
        """Until each of the live ones has ended so many more operations than it had."""
        before = self.ended()

        def all_have():
            now = self.ended()
            return all(now.get(rank, 0) >= before.get(rank, 0) + beyond for rank in live)

        shoal.wait_until(all_have)

    def lose_two(self, sync):
        words = ("train", "--json", "--model", "mlp-small", "--data", self.data, "--workers", 4,
                 "--batch", 8, "--epochs", EPOCHS, "--compute-ms", 40, "--sync", sync,
                 "--peer-timeout", 30)  # fmt: skip
        with subprocess.Popen([shoal.SHOAL, *map(str, words)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as job:  # fmt: skip
            try:
                shoal.wait_until(lambda: len(shoal.ranks_of(job.pid)) == 4)
                ranks = shoal.ranks_of(job.pid)
                self.go_on(range(4), 3)
                os.kill(ranks[0], signal.SIGKILL)
                self.go_on((1, 2, 3), 3)  # groups of rank 1's
                os.kill(ranks[1], signal.SIGKILL)
                self.go_on((2, 3), 3)  # and of rank 2's
                return job.communicate(timeout=90)
            except BaseException:
                job.terminate()
                print(job.communicate()[1])
                raise

    def test_two_in_a_row_are_killed(self):
        for sync in ("ripples:smart", "ripples:random,group=2"):
            with self.subTest(sync=sync):
                out, err = self.lose_two(sync)
                self.assertTrue(out, err)
                result = json.loads(out)
                self.assertEqual(2, result["workers"], err)
                self.assertEqual([0, 1], sorted(one["rank"] for one in result["lost"]))


if __name__ == "__main__":
    shoal.main()
