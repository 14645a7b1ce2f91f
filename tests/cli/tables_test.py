# SPDX-License-Identifier: Apache-2.0
"""Tables fit the terminal that they are shown on; files and pipes get all of them, plain."""
import os
import tempfile
import unicodedata
import unittest

import shoal
from screen_model import Terminal
from status_fake import Job, rank

WIDTHS = (60, 80, 200)


def cells(text):
    """What a terminal has them take."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF"
               else 1 for c in text)  # fmt: skip


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="shoal-tables-")
        self.addCleanup(folder.cleanup)
        self.top, self.env = folder.name, {"SHOAL_STATUS_DIR": os.path.join(folder.name, "run")}

    def shown(self, columns, *words, code=0):
        """Its lines on a terminal, none of which is wider, nor has an escape."""
        t = Terminal(columns, 1000, *words, **self.env)
        self.addCleanup(t.close)
        self.assertEqual(t.end(), code, t.said)
        self.assertNotIn("\x1b", t.said)
        self.assertEqual([], t.screen.problems)
        return t.said.replace("\r\n", "\n").splitlines()

    def piped(self, *words, code=0, **env):
        r = shoal.run(*words, env={**self.env, **env})
        self.assertEqual(r.returncode, code, r.stderr)
        self.assertNotIn("\x1b", r.stdout)
        return r.stdout.splitlines()

    def assert_fit(self, lines, columns):
        for line in lines:
            self.assertLessEqual(cells(line), columns, line)
            self.assertEqual(line, line.rstrip())

    def job(self, *args, **more):
        job = Job(self.env["SHOAL_STATUS_DIR"], *args, **more)
        self.addCleanup(job.close)

    RANKS = [rank(host="a-very-long-name.of.a.host.example.org", ended=3021, compute_ms=30.47,
                  sends=12_912_500, receives=86_087_500, busy=True, operation="all-reduce 3020"),
             rank(host="b", state="unresponsive", ended=12345678, compute_ms=0.5, last=0.33)]

    def test_status(self):
        self.job("night", self.RANKS)
        whole = self.piped("status", code=5)
        self.assertIn("a-very-long-name.of.a.host.example.org", whole[2])
        self.assertEqual("  rank host                                   state        seen s    "
                         "ended compute ms last % sends Mb receive Mb now", whole[1])  # fmt: skip
        self.assertEqual(whole, self.piped("status", code=5, COLUMNS="60", NO_COLOR="1"))
        self.assertEqual(whole[:4], self.shown(200, "status", code=5)[:4])
        for columns in WIDTHS:
            lines = self.shown(columns, "status", code=5)
            at = lines.index(next(line for line in lines if " rank " in line))
            self.assert_fit(lines[: at + 4], columns)
            end = lines[at].index("ended") + len("ended")
            self.assertEqual(["3021", "12345678"],
                             [line[:end].split()[-1] for line in lines[at + 1 : at + 3]])
            left_out = {60: "  no room here for: seen s, last %, sends Mb, receive Mb",
                        80: "  no room here for: receive Mb"}  # fmt: skip
            self.assertEqual(left_out.get(columns, lines[at + 3]), lines[at + 3])
            self.assertEqual("receive Mb" in lines[at], columns == 200)

    def test_status_of_several_jobs(self):
        self.job("night", self.RANKS)
        self.job("größe-名前-" + "x" * 20, [rank()])
        whole = self.piped("status", code=5)
        self.assertRegex("\n".join(whole), r"größe-名前-x{20} +1 +312 all ranks are there\n")
        for columns in WIDTHS:
            lines = self.shown(columns, "status", code=5)
            self.assert_fit(lines[:-1], columns)
            words = " ".join(" ".join(lines).split())
            self.assertIn("rank 1 (b) is unresponsive", words)
            self.assertRegex(words, r" größe-名(前-x+|\.\.\.x+) 1 312 all ranks are there ")

    def test_nothing_moves_the_terminal(self):
        self.job("\x1b[2J\tbell\a\n", [rank(host="\x1b]0;x\a")])
        self.assertIn("?]0;x?", "\n".join(self.piped("status")))
        self.assertIn("?]0;x?", "\n".join(self.shown(80, "status")))

    def test_each_verb(self):
        """Of whichever table: what is piped has all columns and words, what is shown fits."""
        examples = os.path.join(shoal.ROOT, "examples")
        clusters = os.path.join(examples, "clusters", "a100-80g.json")
        network = os.path.join(examples, "network")
        for head, words in {
            "# workers data": ("predict", "--model", "megatron-22b", "--cluster", clusters,
                               "--workers", 16, "--batch", 8, "--search", "--keep", 3),
            "layer spec": ("model", "show", "resnet-152"),
            "model what it is": ("model", "--list"),
            "layer weights": ("partition", "--model", "vgg-e", "--levels", 5),
            "plan bytes per step": ("partition", "--model", "vgg-e", "--levels", 5),
            "cost objective": ("network", "-n", f"{network}/4d.yml", "-c", f"{network}/4d-cost.yml",
                               "-w", f"{network}/gpt3.txt", "-g", "tp=16", "--sweep",
                               "cost=1e6:1e8:4"),
            "worker iterations": ("sim", "--workers", 3, "--iterations", 4),
        }.items():  # fmt: skip
            with self.subTest(head=head):
                whole = self.table(head, self.piped(*words))
                for columns in WIDTHS:
                    lines = self.table(head, self.shown(columns, *words))
                    self.assert_fit(lines, columns)
                    left_out = [line.split(": ")[1].split(", ")
                                for line in lines if "no room here for: " in line]  # fmt: skip
                    names = " ".join(sum(left_out, [lines[0]])).split()
                    self.assertEqual(sorted(whole[0].split()), sorted(names))
                    if columns == 200:
                        self.assertEqual(whole, lines)

    def table(self, head, lines):
        """From its heads to the next empty line."""
        words = head.split()
        (at,) = [i for i, line in enumerate(lines) if line.split()[: len(words)] == words]
        end = next((i for i in range(at, len(lines)) if not lines[i]), len(lines))
        self.assertGreater(end - at, 2)
        return lines[at:end]

    def test_sentences_go_on_below_themselves(self):
        for words in (("list", "codecs"), ("list", "syncs"), ("list", "codecs", "eden"),
                      ("list", "combinations")):  # fmt: skip
            whole = self.piped(*words)
            for columns in WIDTHS:
                lines = self.shown(columns, *words)
                self.assertEqual(" ".join(whole).split(), " ".join(lines).split())
                self.assert_fit([line for line in lines if line.startswith("  ")], columns)
        lines = self.shown(60, "list", "codecs")
        at = lines[0].index("what it is")
        self.assertTrue(all(not line[2:at].strip() or line[at - 1] == " " and line[at] != " "
                            for line in lines[:-2]))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
