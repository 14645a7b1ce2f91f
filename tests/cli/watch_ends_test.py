# SPDX-License-Identifier: Apache-2.0
"""How shoal watch ends and gives the terminal back; several jobs; a real one that loses a rank."""
import os
import re
import signal
import subprocess

import shoal
from screen_model import Terminal
from status_fake import rank
from watch_case import Watch, rate_of, row_of


class Ends(Watch):
    def test_every_end_gives_the_terminal_back(self):
        self.job("night", [rank()])
        for how, code in (("q", 0), ("\x04", 0), ("\x03", -signal.SIGINT),
                          ("\x1c", -signal.SIGQUIT), (signal.SIGTERM, -signal.SIGTERM),
                          (signal.SIGHUP, -signal.SIGHUP),
                          ("\x13" + "\x03", -signal.SIGINT)):  # fmt: skip
            t = self.watch(80, 24)
            t.until(lambda s: row_of(s, 0) != [])
            self.assertFalse(t.is_as_before())
            if isinstance(how, str):
                t.type(how)
            else:
                t.job.send_signal(how)
            self.assertEqual(t.end(), code, how)
            self.assertTrue(t.is_as_before(), how)
            self.assertEqual(t.screen.text().strip(), "", how)

    def test_stopped_and_continued(self):
        self.job("night", [rank()])
        t = Terminal(80, 24, SHOAL_STATUS_DIR=self.folder, program=[
            "bash", "-mc", '"$0" watch; echo back; fg', shoal.SHOAL])  # fmt: skip
        self.addCleanup(t.close)
        t.until(lambda s: row_of(s, 0) != [])
        t.type("\x1a")
        t.until(lambda s: "\x1b[?1049l" in t.said and "back" in t.said.split("\x1b[?1049l")[1])
        t.until(lambda s: t.said.count("\x1b[?1049h") == 2 and s.alternate and row_of(s, 0) != [])
        t.type("q")
        t.until(lambda s: t.job.poll() is not None or not s.alternate)
        self.assertEqual(t.end(), 0)
        self.assertTrue(t.is_as_before())

    def test_the_end_of_the_job(self):
        job = self.job("night", [rank(), rank("dead", host="b")])
        t, lines = self.watch(80, 24), self.lines("--job", "night")
        t.until(lambda s: row_of(s, 1) != [])
        self.assertIn("job night: 2 ranks, 1 running, 1 dead; up 312 s; ", lines.stdout.readline())
        said = lines.stdout.readline() + lines.stdout.readline()
        self.end(job)
        self.assertEqual(t.end(), 5)
        self.assertTrue(t.is_as_before())
        self.assertIn("over: job night: 2 ranks, 1 running, 1 dead; up 312 s; rank 1 (b) is dead",
                      t.screen.text())  # fmt: skip
        said += lines.communicate(timeout=60)[0]
        self.assertEqual(lines.returncode, 5)
        self.assertRegex(said, r"(?m)^\d\d:\d\d:\d\d job night: .*; [0-9.]+ operations/s; rank 1 ")
        self.assertNotIn("\x1b", said)
        self.assertIn("over: job night", said)

    def test_dumb_terminals_get_lines(self):
        self.job("night", [rank()])
        t = self.watch(80, 24, TERM="dumb")
        t.until(lambda s: t.said.count("job night: 1 rank, all running") > 2)
        self.assertNotIn("\x1b", t.said)

    def test_several_jobs(self):
        first, second = self.job("day", [rank()]), self.job("night", [rank(), rank("missing")])
        first.age_s = 5000
        t, numbered = self.watch(80, 24), self.watch(80, 24, "2")
        t.until(lambda s: "2 jobs of this user on" in s.text())
        self.assertRegex(t.screen.text(), r"(?m)^  1  day +1 +1:23 h  all ranks are there$")
        self.assertRegex(t.screen.text(), r"(?m)^  2  night +2 +5:12 min  rank 1 \(a\) has not c")
        numbered.until(lambda s: "job night" in s.text() and row_of(s, 1) != [])
        self.end(first)
        t.until(lambda s: "job night" in s.text() and row_of(s, 1) != [])
        second.age_s = 7200
        numbered.until(lambda s: "job night  up 2:00 h" in s.text())
        for one in (t, numbered):
            self.good(one)
            one.type("q")
            self.assertEqual(one.end(), 5)

    def test_usage(self):
        def said(*words):
            r = shoal.run("watch", *words, env={"SHOAL_STATUS_DIR": self.folder})
            return r.returncode, r.stderr
        self.assertEqual(said()[0], 2)
        self.assertIn("no job runs on this host", said()[1])
        self.job("night", [rank()])
        for words, names in {("--interval", "0"): "from 0.1 to 3600", ("--job", "x"): "'x'",
                             ("--interval", "nan"): "nan",
                             ("a", "--job", "b"): "one job at a time",
                             ("--intervall", "1"): "--interval",
                             ("7",): "'7'"}.items():  # fmt: skip
            code, text = said(*words)
            self.assertEqual(code, 2, words)
            self.assertIn(names, text)


class Real(Watch):
    def test_a_rank_is_killed(self):
        """The others say so, and go on without it."""
        data = os.path.join(self.top, "data")
        made = shoal.run("data", "digits", "--out", data, "--train", 96, "--test", 20)
        self.assertEqual(made.returncode, 0, made.stderr)
        train = subprocess.Popen(
            [shoal.SHOAL, *"train --model mlp-small --batch 4 --compute-ms 10 --epochs 10000 "
             "--no-eval --quiet --workers 3 --on-loss reform --data".split(), data],
            env={**os.environ, "SHOAL_STATUS_DIR": self.folder, "SHOAL_JOB": "night"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        self.addCleanup(train.wait)
        self.addCleanup(train.terminate)
        shoal.wait_until(lambda: os.path.isdir(self.folder) and os.listdir(self.folder))
        t = self.watch(100, 30)
        t.until(lambda s: "3 ranks, all running" in s.text() and rate_of(s, 2) > 1)
        with open(f"/proc/{train.pid}/task/{train.pid}/children", encoding="ascii") as f:
            ranks = {shoal.rank_of(int(pid)): int(pid) for pid in f.read().split()}
        os.kill(ranks[2], signal.SIGKILL)
        t.until(lambda s: "the ranks have met anew: 2, before 3" in s.text())
        t.until(lambda s: "2 ranks, all running" in s.text() and rate_of(s, 1) > 1)
        self.good(t)
        train.terminate()
        self.assertIn(t.end(), (0, 5))
        self.assertTrue(t.is_as_before())
        self.assertIn("over: job night: 2 ranks", t.screen.text())


if __name__ == "__main__":
    shoal.main()
