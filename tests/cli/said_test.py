# SPDX-License-Identifier: Apache-2.0
"""--log-format json: every line on standard error is an object, whoever says it."""
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest
import urllib.request

import shoal


class Said(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-said-"))
        cls.data = os.path.join(cls.folder, "data")
        made = shoal.run("data", "digits", "--out", cls.data, "--train", 96, "--test", 20)
        assert made.returncode == 0, made.stderr

    def lines(self, text):
        found = [json.loads(line) for line in text.splitlines()]
        for line in found:
            self.assertLessEqual({"level", "text"}, set(line))
            self.assertIn(line["level"], ("error", "warn", "info", "debug", "trace"))
        return found

    def words(self, *more):
        return ["train", "--model", "mlp-small", "--data", self.data, "--batch", 8, "--no-eval",
                "--log-format", "json", *more]  # fmt: skip

    def start(self, *more):
        job = subprocess.Popen([shoal.SHOAL, *map(str, self.words("--metrics", 0, *more))],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True)  # fmt: skip
        self.addCleanup(job.stderr.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        return job

    def until_it_trains(self, job):
        [said] = self.lines(job.stderr.readline())
        port = re.fullmatch(r"shoal train: metrics are at port (\d+)", said["text"])[1]

        def look():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                    return re.search(rb"^shoal_train_step [1-9]", answer.read(), re.M)
            except OSError:
                return False

        shoal.wait_until(look)

    def test_of_a_run_that_ends_well(self):
        r = shoal.run(*self.words("--workers", 2, "--epochs", 2, "--log", "debug", "--metrics", 0))
        self.assertEqual(0, r.returncode, r.stderr)
        lines = self.lines(r.stderr)
        self.assertTrue(any("metrics are at port" in line["text"] for line in lines))
        self.assertEqual({0, 1}, {line["rank"] for line in lines if "rank" in line})
        self.assertTrue(all(line["time"] for line in lines))

    def test_of_what_is_refused(self):
        long = "no such \"model\"\t" + "x" * 3000
        for words, code, said in ((("--model", long), 2, "no such"),
                                  (("--codec", "nope"), 2, "unknown codec 'nope'"),
                                  (("--workers", "many"), 2, "--workers")):  # fmt: skip
            r = shoal.run(*self.words(), *words, env={"SHOAL_LOG_FORMAT": "json"})
            self.assertEqual(code, r.returncode, r.stderr)
            [line] = self.lines(r.stderr)
            self.assertEqual("error", line["level"])
            self.assertIn(said, line["text"])
            self.assertNotIn("\t", line["text"])
        self.assertEqual("Try `shoal train --help`.", line["advice"])

    def test_of_a_rank_that_is_killed(self):
        job = self.start("--workers", 2, "--epochs", 100000, "--compute-ms", 5)
        self.until_it_trains(job)
        os.kill(shoal.ranks_of(job.pid)[1], signal.SIGKILL)
        lines = self.lines(job.stderr.read())
        self.assertNotEqual(0, job.wait())
        self.assertTrue(any("rank 1 was killed by signal 9" in line["text"] for line in lines))

    def test_of_an_interruption(self):
        for workers in (1, 2):
            job = self.start("--workers", workers, "--epochs", 100000, "--compute-ms", 5)
            self.until_it_trains(job)
            job.send_signal(signal.SIGINT)
            lines = self.lines(job.stderr.read())
            self.assertTrue(any("interrupted: " in line["text"] for line in lines), lines)


if __name__ == "__main__":
    shoal.main()
