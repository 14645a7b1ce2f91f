# SPDX-License-Identifier: Apache-2.0
"""The stranger's test of docs/testing.md: the run that its commands make, and whether the page of
that run, and nothing else, holds the answers of its key."""
import html.parser
import os
import re
import shlex
import tempfile
import unittest

import shoal

LAB = shoal.lab_works()
PAGE = os.path.join(shoal.ROOT, "docs", "testing.md")
HEAD = "## A stranger's test\n"


def section():
    with open(PAGE, encoding="utf-8") as file:
        return file.read().split(HEAD)[1].split("\n## ")[0]


class Text(html.parser.HTMLParser):
    """What a reader sees, in one line; tables as "cell | cell"."""

    def __init__(self, page):
        super().__init__()
        self.parts, self.hidden = [], 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.hidden += tag == "style"
        self.parts.append({"td": " | ", "th": " | "}.get(tag, " "))

    def handle_endtag(self, tag):
        self.hidden -= tag == "style"
        self.parts.append(" ")

    def handle_data(self, data):
        if not self.hidden:
            self.parts.append(data)

    def __str__(self):
        return re.sub(r"\s+", " ", "".join(self.parts))


@unittest.skipIf(LAB, LAB)
class Stranger(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-stranger-"))
        block = re.search(r"```\n(.*?)```", section(), re.S)[1].replace("\\\n", " ")
        commands = [shlex.split(line) for line in block.splitlines()]
        assert [words[1] for words in commands] == ["data", "train", "report"], commands
        for words in commands:
            done = shoal.run(*words[1:], cwd=cls.folder)
            assert done.returncode == 0, done.stderr
        with open(os.path.join(cls.folder, "report.html"), encoding="utf-8") as file:
            cls.page = str(Text(file.read()))

    def number(self, pattern):
        found = re.search(pattern, self.page)
        self.assertTrue(found, f"{pattern} is not in: {self.page[:3000]}")
        return float(found[1])

    def test_which_rank_was_slow_and_why(self):
        slow = re.findall(r"Rank (\d+) \(\S*\) (.*?)[,:;]", self.page)
        self.assertEqual([("2", "is slow at computing")], slow)
        own = self.number(r"computes ([\d.]+) ms per step")
        others = self.number(r"the median of the others computes ([\d.]+) ms")
        self.assertGreater(own, 3 * others)  # ten times; a busy machine slows the others, too
        last = self.number(r"It arrived last in (\d+) %")
        self.assertGreater(last, 50)

    def test_what_share_of_a_step_was_communication(self):
        waiting = self.number(r"of it waiting for the exchange, % ([\d.]+)")
        exchange = self.number(r"that is: the exchange itself, % ([\d.]+)")
        others = self.number(r"and waiting for slower ranks, % ([\d.]+)")
        self.assertAlmostEqual(waiting, exchange + others, delta=0.15)
        self.assertGreater(others, 20)  # three of four wait for more than half of the step
        step = self.number(r"mean step, ms ([\d.]+)")
        ring = 1.5 * 4 * 235146 * 8 / 500e6 * 1e3  # ms: what a ring must move of mlp-small
        self.assertGreater(exchange / 100 * step, 0.7 * ring)

    def test_what_would_help_most(self):
        self.assertIn("Most would help: no worker slower than the median one.", self.page)
        table = self.page.split("What would help | change")[1]
        times = re.findall(r"\| [a-z ]+ \| [\d.]+ \| [\d.]+ \| [\d.]+ \| ([\d.]+) \| --", table)
        self.assertEqual(4, len(times), table[:600])
        self.assertEqual(sorted(times, key=float, reverse=True), times)
        self.assertGreater(float(times[0]), 1.3)

    def test_the_key_names_where_the_answers_stand(self):
        for place in re.findall(r"under \"(.*?)\"", section()):
            self.assertIn(place, self.page)


if __name__ == "__main__":
    shoal.main()
