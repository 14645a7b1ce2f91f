# SPDX-License-Identifier: Apache-2.0
"""What the tests of shoal watch share: jobs whose answers the test makes up, and terminals."""
import os
import re
import subprocess
import tempfile
import unittest

import shoal
import status_fake
from screen_model import Terminal


def row_of(screen, number):
    """The words of a rank's line."""
    found = [line for line in screen.lines() if re.match(rf" *{number} ", line)]
    return found[0].split() if found else []


def rate_of(screen, number):
    """Its ops/s, where the page has 100 columns; 0: not known yet."""
    words = row_of(screen, number)
    return float(words[7]) if len(words) > 7 and words[7] != "-" else 0


class Watch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top, self.folder = folder.name, os.path.join(folder.name, "run")
        self.jobs = []

    def tearDown(self):
        for job in self.jobs:
            job.close()

    def job(self, name, ranks, notes=""):
        self.jobs.append(status_fake.Job(self.folder, name, ranks, notes))
        return self.jobs[-1]

    def end(self, job):
        self.jobs.remove(job)
        job.close()

    def watch(self, columns, rows, *words, interval=0.1, **env):
        t = Terminal(columns, rows, "watch", "--interval", interval, *words,
                     SHOAL_STATUS_DIR=self.folder, **env)  # fmt: skip
        self.addCleanup(t.close)
        return t

    def lines(self, *words, **env):
        return subprocess.Popen(
            [shoal.SHOAL, "watch", "--interval", "0.1", *words], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "TERM": "xterm", "SHOAL_STATUS_DIR": self.folder, **env},
        )  # fmt: skip

    def good(self, t):
        self.assertEqual([], t.screen.problems, t.screen.text())
