# SPDX-License-Identifier: Apache-2.0
"""What shoal watch shows, on terminals made by the test and read by a screen of its own."""
import json
import re
import time

import shoal
from status_fake import rank
from watch_case import Watch, row_of

BLOCKS = "▁▂▃▄▅▆▇█"


class Page(Watch):
    FOUR = [
        rank(ended=3021, compute_ms=30.47, sends=12_912_500, receives=86_087_500, busy=True,
             doing_s=0.5, operation="all-reduce 3020"),
        rank(host="b", ended=3020, compute_ms=34.3, last=0.33, cause="network", slow_s=42,
             sends=12_332_500, receives=13_200_000),
        rank(host="a-very-long-name.example.org", state="unresponsive", seen_s=1.4, ended=3019,
             operation="all-reduce 3018", busy=True),
        rank(host="d", state="dead", seen_s=9.5, ended=2000, operation="all-reduce 1999"),
    ]  # fmt: skip

    def test_what_it_shows_at_each_width(self):
        self.job("night", self.FOUR, "rank 0 to rank 1 (b): link 10.0.0.2 is not used any more\n")
        for t in [self.watch(columns, 24) for columns in (60, 80, 200)]:
            t.until(lambda s: row_of(s, 0)[-1:] != [] and "▁" in s.text())
            self.good(t)
            columns, text = t.screen.columns, t.screen.text()
            whole = " ".join(line.strip() for line in t.screen.lines())
            self.assertRegex(text, r"\Ajob night  up 5:12 min  .* operations/s")
            self.assertIn("4 ranks, 2 running, 1 unresponsive, 1 dead\n", text)
            self.assertEqual(
                [row_of(t.screen, i)[1 + (columns > 60)] for i in range(4)],
                ["running", "running", "unresponsive", "dead"])  # fmt: skip
            title = next(line for line in t.screen.lines() if " state " in line)
            for word, value in {"comp ms": "34.30", "last %": "33", "ended": "3020",
                                "sends Mb": "98.66", "recv Mb": "105.6"}.items():  # fmt: skip
                self.assertIn(word, title if columns == 200 or word in title else word)
                end = title.find(word) + len(word)
                line = next(line for line in t.screen.lines() if re.match(" *1 ", line))
                if word in title:
                    self.assertEqual(line[:end].split()[-1], value, text)
            self.assertEqual("sends Mb" in title, columns == 200)
            self.assertEqual("in 0.5 s: all-reduce 3020" in text, columns == 200, text)
            self.assertIn("rank 1 (b) has a slow link, for 42 s: 106 Mbit/s at best;", whole)
            self.assertIn("rank 3 (d) is dead: last seen 9.5 s ago, after all-reduce 1999", whole)
            self.assertIn("link 10.0.0.2 is not used any more", whole)
            self.assertEqual(t.screen.colours >= {"31", "33"}, True)
            t.type("q")
            self.assertEqual(t.end(), 5)
            self.assertTrue(t.is_as_before())

    CAUSES = {
        "input": (dict(data_ms=12.5), "is slow at making its batches: 12.50 ms per operation"),
        "load": (dict(samples=64), "has more samples than the others: 64.00 per operation"),
        "disk": (dict(disk_ms=7), "is slow at writing its part of checkpoints: 7.00 ms per op"),
        "pause": (dict(paused_ms=90), "pauses now and then, for at least 90.00 ms per operation"),
    }

    def test_each_cause_has_its_words(self):
        """On the terminal, off it, and by shoal status; and how far the training is."""
        far = "step 128, epoch 5, loss 0.5, accuracy 91.25 %"
        for cause, (more, words) in self.CAUSES.items():
            with self.subTest(cause=cause):
                job = self.job(cause, [
                    rank(ended=3000, step=128, epoch=5, loss=0.75, accuracy=91.25),
                    rank(host="b", ended=3000, cause=cause, slow_s=42, step=127, epoch=5,
                         loss=0.25, **more),
                ])  # fmt: skip
                said = f"rank 1 (b) {words}"
                status = {"SHOAL_STATUS_DIR": self.folder}
                table = shoal.run("status", env=status).stdout
                self.assertIn(said, table)
                self.assertIn(f"\n  {far}\n", table)
                one = json.loads(shoal.run("status", "--json", env=status).stdout)["jobs"][0]
                self.assertEqual([r["cause"] for r in one["ranks"]], ["", cause])
                self.assertIn(said, one["ranks"][1]["text"])
                self.assertEqual(one["training"],
                                 dict(step=128, epoch=5, loss=0.5, accuracy=91.25))  # fmt: skip
                for key, value in more.items():
                    self.assertEqual(one["ranks"][1][key], value)
                t = self.watch(100, 24)
                t.until(lambda s, said=said: said in s.text())
                self.good(t)
                self.assertEqual(t.screen.lines()[2], far)
                t.type("q")
                t.end()
                lines = self.lines()
                line = lines.stdout.readline()
                lines.kill()
                lines.communicate()
                self.assertIn(f"; {far}; {said}", line)
                self.end(job)

    def test_rates_and_their_history(self):
        """Twice as many operations on rank 0 as on rank 1, none on rank 2, in each answer."""
        def ranks(n):
            return [rank(ended=200 * n), rank(ended=100 * n), rank(ended=7)]
        job = self.job("night", ranks(1))
        t = self.watch(80, 24)
        n, begun = 1, time.monotonic()
        while len((row_of(t.screen, 0) or [""] * 4)[-4]) < 8:
            asked = job.asked
            n += 1
            t.until(lambda s, asked=asked: job.asked > asked)
            job.ranks = ranks(n)
        rows = [row_of(t.screen, i) for i in range(3)]
        rate = [float(row[-5]) for row in rows]
        self.assertGreater(rate[0], 0)
        self.assertAlmostEqual(rate[0] / rate[1], 2, delta=0.02)
        mean = 200 * (n - 1) / (time.monotonic() - begun)
        # Of the right order; answers of a busy machine come now close together, now late.
        self.assertTrue(mean / 30 < rate[0] < mean * 30, (mean, rate))
        self.assertEqual(rate[2], 0)
        for high, half, none in zip(*(row[-4] for row in rows)):
            level = BLOCKS.index(high)
            self.assertIn(BLOCKS.index(half) - level / 2, (0, 0.5, -0.5, 1), rows)
            self.assertEqual(none, "▁")
        self.assertIn("█", rows[0][-4])
        self.good(t)
        # What did not change was written once.
        self.assertEqual(t.said.count("comp ms"), 1)
        self.assertEqual(t.screen.wiped, 2)

    def test_without_colours_and_beyond_ascii(self):
        self.job("nächtlich", self.FOUR)
        plain = [self.watch(120, 24, NO_COLOR="1"), self.watch(120, 24, LANG="C"),
                 self.watch(120, 24, "--ascii"), self.watch(120, 24, TERM="linux")]  # fmt: skip
        for i, t in enumerate(plain):
            t.until(lambda s: "_" in s.text() or "▁" in s.text())
            self.good(t)
            self.assertEqual(t.said.isascii(), i > 0)
            self.assertEqual(t.screen.colours == set(), i == 0)
            self.assertIn("job nächtlich" if i == 0 else "job n?chtlich ", t.screen.text())

    def test_hostile_names(self):
        name = "n\x1b[31m\u202e\x07日本"
        self.job(name, [rank(host="h\x1b[2J\r\n", operation="\x9b31m", busy=True)], "\x1b[Hno\t\n")
        t = self.watch(200, 24)
        t.until(lambda s: row_of(s, 0) != [])
        self.good(t)
        self.assertIn("job n?[31m?日本  up", t.screen.text())
        self.assertRegex(t.screen.text(), r"(?m)^   0 h\?\[2J\?\? +running")
        done = self.lines()
        line = done.stdout.readline()
        done.terminate()
        done.communicate()
        self.assertTrue(line[:-1].isprintable(), line)

    def test_it_follows_the_size(self):
        self.job("night", self.FOUR)
        t = self.watch(200, 40, interval=3600)  # nothing but the signal makes it draw
        t.until(lambda s: "sends Mb" in s.text())
        for columns, rows in ((60, 12), (100, 24), (40, 6), (1, 1), (200, 60), (1000, 300)):
            wiped = t.screen.wiped
            t.set_size(columns, rows)
            t.until(lambda s, wiped=wiped: s.wiped > wiped)
            t.screen.problems.clear()  # of what was written for the size before
            t.until(lambda s, rows=rows: "q ends" in s.text() or rows < 24)
            self.good(t)
            if columns >= 60:
                self.assertEqual([bool(row_of(t.screen, i)) for i in range(4)], [True] * 4)
        self.assertIn("sends Mb", t.screen.text())

    def test_more_ranks_than_lines(self):
        ranks = [rank(host=f"h{i}") for i in range(300)]
        ranks[250] = rank("dead", host="h250", operation="all-reduce 3")
        self.job("night", ranks)
        t = self.watch(80, 24)
        t.until(lambda s: "of 300" in s.text())
        self.assertIn("300 ranks, 299 running, 1 dead", t.screen.text())
        self.assertIn("rank 250 (h250) is dead", t.screen.text())
        self.assertTrue(row_of(t.screen, 0))
        for keys, first in (("\x1b[6~", "1[0-9]"), ("j", "1[0-9]"), ("G", "28[0-9]"), ("g", "0"),
                            ("\x1b[A", "0")):  # fmt: skip
            t.type(keys)
            t.until(lambda s, first=first: re.search(f"ranks {first} to ", s.text()))
        self.good(t)

    def test_states_that_change(self):
        job = self.job("night", [rank(ended=500), rank(host="b", ended=500)])
        t = self.watch(80, 24)
        t.until(lambda s: "2 ranks, all running; no straggler" in s.text())
        job.ranks = [rank(ended=500), rank("dead", host="b", ended=500)]
        t.until(lambda s: re.search(r"\d\d:\d\d:\d\d rank 1 \(b\) is dead, was running", s.text()))
        job.ranks = [rank(ended=3)]
        t.until(lambda s: "the ranks have met anew: 1, before 2" in s.text())
        self.assertIn("1 rank, all running; too few operations", t.screen.text())
        job.mute = True
        t.until(lambda s: re.search("no rank answers, for [0-9]+ s; before: 1 rank", s.text()))
        job.mute = False
        t.until(lambda s: "no rank answers" not in s.text())
        self.good(t)


if __name__ == "__main__":
    shoal.main()
