# SPDX-License-Identifier: Apache-2.0
"""The line that says how far a command is, on a terminal made by the test; and what Ctrl-C says."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

import shoal

CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Terminal:
    """A command on a terminal of so many columns."""

    def __init__(self, columns, *words, **env):
        self.master, slave = pty.openpty()
        self.said = ""
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.job = subprocess.Popen(
            [shoal.SHOAL, *map(str, words)], stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True, env={**os.environ, "TERM": "xterm", **env},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))  # fmt: skip
        os.close(slave)

    def read(self, condition, seconds=60):
        """Until condition(all that was said), or the command has ended."""
        end = time.monotonic() + seconds
        while not condition(self.said):
            assert time.monotonic() < end, self.said
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.said += os.read(self.master, 65536).decode()
                except OSError:  # the other end is closed
                    break
        return self.said

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self):
        self.read(lambda _: False)
        return self.job.wait(timeout=60)

    def close(self):
        if self.job.poll() is None:
            os.killpg(self.job.pid, signal.SIGKILL)
        self.job.wait()
        os.close(self.master)


class Progress(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.data = os.path.join(self.folder, "data")
        made = shoal.run("data", "digits", "--out", self.data, "--train", 96, "--test", 20)
        self.assertEqual(made.returncode, 0, made.stderr)

    def words(self, *more):
        return ["train", "--model", "mlp-small", "--data", self.data, "--batch", 8,
                "--compute-ms", 20, "--no-eval", *more]  # fmt: skip

    def terminal(self, columns, *words, **env):
        made = Terminal(columns, *words, **env)
        self.addCleanup(made.close)
        return made

    def test_a_bar_that_fits(self):
        words = self.words("--steps", 130, "--epochs", 100)
        both = {c: self.terminal(c, *words, NO_COLOR="1") for c in (60, 200)}
        for columns, t in both.items():
            self.assertEqual(t.end(), 0, t.said)
            bars = [CONTROL.sub("", piece) for piece in re.split("[\r\n]", t.said)
                    if " left" in piece]  # fmt: skip
            self.assertTrue(bars, t.said)
            for bar in bars:
                self.assertLess(len(bar), columns)
                self.assertRegex(bar, r"train +\d+ % .*\d+/130 steps  [\d.]+/s  \d+ s left")
            self.assertEqual(any("loss " in bar for bar in bars), columns == 200)
            self.assertEqual(set(CONTROL.findall(t.said)), {"\x1b[K"})  # no colours
            # Rows stand alone: the bar is away when they come.
            self.assertRegex(t.said, r"(?m)\033\[Kepoch 9/100  step 108 ")

    def test_simulations_and_searches_move(self):
        """Work of hours, which is ended once the bar has moved."""
        cluster = os.path.join(self.folder, "many.json")
        with open(os.path.join(shoal.ROOT, "examples", "clusters", "lab-4.json"), "rb") as file:
            many = json.load(file)
        many["hosts"][0]["count"] = 1024
        many.pop("cores", None)
        with open(cluster, "w", encoding="ascii") as file:
            json.dump(many, file)
        for words, unit in (
            (("sim", "--iterations", 10**9), "iterations"),
            (("sim", "--seconds", 10**8), "virtual s"),
            (("predict", "--model", "vgg-a", "--cluster", cluster, "--allow", "lossy", "--search"),
             "ways to divide it"),
        ):  # fmt: skip
            with self.subTest(words=words):
                t = self.terminal(120, *words)
                done = re.compile(r" ([\d.e+]+)/([\d.e+]+) " + unit + r"  [\d.e+]+/s  \S+ \w+ left")
                t.read(lambda said, d=done: len({m[1] for m in d.finditer(said)}) > 1, 60)
                t.type("\x03")
                self.assertIn(t.end(), (-signal.SIGINT, 130), t.said)

    def text_run(self):
        """A run that writes one letter for ever, and so never ends its text."""
        text, model = (os.path.join(self.folder, name) for name in ("letters", "m.json"))
        data, run = (os.path.join(self.folder, name) for name in ("texts", "run"))
        with open(text, "w", encoding="ascii") as file:
            file.write("a" * 4000)
        with open(model, "w", encoding="ascii") as file:
            json.dump({"name": "m", "input": [1, 8, 1],
                       "layers": ["onehot:classes=257", "framewise:out=257"]}, file)
        for words in (("data", "text", "--out", data, "--tokens", "bytes", "--length", 8, text),
                      ("train", "--model", model, "--data", data, "--batch", 8, "--lr", 1,
                       "--epochs", 9, "--no-eval", "--quiet", "--out", run)):  # fmt: skip
            done = shoal.run(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
        return run

    def table(self):
        """Images that take long to bring to another size."""
        path = os.path.join(self.folder, "table.csv")
        with open(path, "w", encoding="ascii") as file:
            file.writelines(f"{n % 2},{n % 7},2,3,4\n" for n in range(200000))
        return path

    def test_what_takes_long_says_so_unless_it_is_to_be_quiet(self):
        table, size = self.table(), ("--size", 4096)
        for words, done in (
            (("generate", "--from", self.text_run(), "--json", "--tokens", 1000000),
             r"\d/1000000 tokens"),
            (("data", "check", table, *size), r"for \d+ s"),
            (("data", "images", "--from", table, *size, "--out", self.folder + "/i"),
             r"for \d+ s"),
        ):
            with self.subTest(words=words):
                quiet = self.terminal(80, *words, "--quiet")
                shoal.wait_until(lambda t=quiet: self.is_busy(t))
                if "--out" in words:  # one at a time fills a folder
                    words = (*words[:-1], words[-1] + "2")
                t = self.terminal(80, *words)  # began later, and says something
                t.read(lambda said, d=done: re.search(d, said))
                self.assertIsNone(quiet.job.poll(), quiet.said)
                t.type("\x03")
                self.assertIn(t.end(), (-signal.SIGINT, 130), t.said)
                quiet.type("\x03")
                self.assertIn(quiet.end(), (-signal.SIGINT, 130), quiet.said)
                self.assertEqual(quiet.said.replace("^C", ""), "")

    @staticmethod
    def is_busy(terminal):
        """It has computed for a while: what it was given is read."""
        with open(f"/proc/{terminal.job.pid}/stat", encoding="ascii") as file:
            user = file.read().rpartition(")")[2].split()[11]
        return int(user) > 10

    def test_every_verb_that_says_how_far_it_is_can_be_quiet(self):
        for verb in ("train", "sim", "eval", "generate", "export", "explore", "calibrate",
                     "predict", "whatif", "network", "runs", "report", "bench allreduce",
                     "bench codec", "bench circulant", "data", "data speech", "data text",
                     "data clicks", "data svmlight", "data images", "data check"):
            with self.subTest(verb=verb):
                self.assertIn("--quiet", shoal.run(*verb.split(), "--help").stdout)

    def test_the_width_is_followed(self):
        t = self.terminal(200, *self.words("--epochs", 1000, "--steps", 10000))
        t.read(lambda said: said.count("left") > 1)
        fcntl.ioctl(t.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 61, 0, 0))
        before = len(t.said)
        t.read(lambda said: said[before:].count("left") > 8)
        last = [p for p in re.split("[\r\n]", CONTROL.sub("", t.said)) if " left" in p][-2]
        self.assertLess(len(last), 61)

    def test_quiet_and_pipes_and_dumb_terminals(self):
        words = self.words("--steps", 110, "--epochs", 100)
        quiet, dumb = self.terminal(80, *words, "--quiet"), self.terminal(80, *words, TERM="dumb")
        done = shoal.run(*words, env={"TERM": "xterm"})
        self.assertNotIn("\x1b", done.stdout + done.stderr)
        for t in (quiet, dumb):
            self.assertEqual(t.end(), 0)
            self.assertNotIn("\x1b", t.said)
            self.assertNotIn("left", t.said)

    def test_what_ctrl_c_does(self):
        out = os.path.join(self.folder, "run")
        both = [self.terminal(80, *self.words("--epochs", 1000, "--steps", 10000, "--workers",
                                              workers, "--out", f"{out}{workers}"))
                for workers in (1, 2)]  # fmt: skip
        for workers, t in enumerate(both, 1):
            t.read(lambda said: " left" in said)
            t.type("\x03")
            code = t.end()
            self.assertIn(code, (-signal.SIGINT, 130), t.said)
            self.assertIn("interrupted: ", t.said)
            self.assertIn(f"`shoal train --resume {out}{workers}` goes on", t.said)

    def test_the_second_ctrl_c_ends_at_once(self):
        """Ranks that do not listen to the first would be given five seconds."""
        deaf = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('deaf'," \
               " flush=True); signal.pause()"  # fmt: skip
        for _ in range(4):  # the machine may be busy
            t = self.terminal(80, "run", "-n", "2", "--", "python3", "-c", deaf)
            t.read(lambda said: said.count("deaf") == 2)
            t.type("\x03")
            t.read(lambda said: "once more ends them at once" in said)
            begun = time.monotonic()
            t.type("\x03")
            self.assertEqual(t.end(), 130)
            took = time.monotonic() - begun
            if took < 4:
                break
        self.assertLess(took, 4)


if __name__ == "__main__":
    shoal.main()
