# SPDX-License-Identifier: Apache-2.0
"""A terminal made by the test: a pseudo terminal, and what a screen would show of the bytes that
came out of it. Knows the few escapes that the command may use, and refuses all others."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unicodedata

import shoal

ESCAPE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class Screen:
    """Cells of the main and of the alternate page, and where the cursor is."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.pages = {False: {}, True: {}}  # alternate: {(row, column): character}
        self.alternate, self.cursor, self.kept = False, True, (0, 0)
        self.row = self.column = 0
        self.colours, self.wiped, self.problems = set(), 0, []
        self.rest = ""

    def lines(self):
        page = self.pages[self.alternate]
        return ["".join(page.get((r, c), " ") for c in range(self.columns)).rstrip()
                for r in range(self.rows)]  # fmt: skip

    def text(self):
        return "\n".join(self.lines())

    def feed(self, text):
        text = self.rest + text
        self.rest = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = ESCAPE.match(text, at)
                if found is None:
                    if len(text) - at < 12:
                        self.rest = text[at:]
                        return
                    self.problems.append(text[at : at + 12])
                    at += 1
                    continue
                self.escape(*found.groups())
                at = found.end()
            else:
                self.put(text[at])
                at += 1

    def put(self, char):
        if char == "\n":
            self.row += 1
        elif char == "\r":
            self.column = 0
        elif not char.isprintable():
            self.problems.append(char)
        else:
            wide = 2 if unicodedata.east_asian_width(char) in "WF" else 1
            if self.alternate and self.column + wide > self.columns - 1:
                self.problems.append(f"column {self.column} of row {self.row}: {char}")
            self.pages[self.alternate][self.row, self.column] = char
            if wide == 2:
                self.pages[self.alternate][self.row, self.column + 1] = ""
            self.column += wide

    def escape(self, private, numbers, letter):
        page = self.pages[self.alternate]
        what = private + numbers + letter
        if what == "?1049h":
            self.alternate, self.kept = True, (self.row, self.column)
            self.pages[True] = {}
        elif what == "?1049l":
            self.alternate = False
            self.row, self.column = self.kept
        elif what in ("?25h", "?25l"):
            self.cursor = letter == "h"
        elif letter == "H" and not private:
            row, _, column = numbers.partition(";")
            self.row, self.column = int(row or 1) - 1, int(column or 1) - 1
            if self.row >= self.rows:
                self.problems.append(what)
        elif what == "2J":
            page.clear()
            self.wiped += 1
        elif what == "K":
            for key in [k for k in page if k[0] == self.row and k[1] >= self.column]:
                del page[key]
        elif letter == "m" and not private:
            self.colours.add(numbers)
        else:
            self.problems.append(what)


class Terminal:
    """A command on a terminal of a size; .screen is what it shows."""

    def __init__(self, columns, rows, *words, program=(shoal.SHOAL,), **env):
        self.master, self.slave = pty.openpty()
        self.said, self.screen = "", Screen(columns, rows)
        self.set_size(columns, rows)
        self.before = termios.tcgetattr(self.slave)
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "NO_CO"))}
        self.job = subprocess.Popen(
            [*program, *map(str, words)], stdin=self.slave, stdout=self.slave,
            stderr=self.slave, start_new_session=True,
            env={**plain, "TERM": "xterm", "LANG": "C.UTF-8", **env},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))  # fmt: skip

    def set_size(self, columns, rows):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.columns, self.screen.rows = columns, rows

    def take(self, seconds):
        """What has come within so long; False: nothing."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        text = os.read(self.master, 65536).decode(errors="replace")
        self.said += text
        self.screen.feed(text)
        return True

    def state(self):
        """What the kernel says of the command: running or waiting, and for which signals."""
        with open(f"/proc/{self.job.pid}/status", encoding="ascii") as file:
            wanted = ("State", "SigPnd", "ShdPnd", "SigBlk")
            lines = [line.strip() for line in file if line.startswith(wanted)]
        size = fcntl.ioctl(self.slave, termios.TIOCGWINSZ, bytes(8))
        return f"{lines}, size {struct.unpack('HHHH', size)}"

    def until(self, condition, seconds=60):
        """Until condition(screen)."""
        end = time.monotonic() + seconds
        while not condition(self.screen):
            late = time.monotonic() > end
            assert not late, f"{self.screen.text()}{self.said[-2000:]!r}\n{self.state()}"
            assert self.job.poll() is None or self.take(0), self.said
            self.take(0.1)

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self, seconds=60):
        """The exit code, once it has ended; all that it said is on the screen."""
        end = time.monotonic() + seconds
        while self.job.poll() is None:
            assert time.monotonic() < end, "does not end\n" + self.screen.text()
            self.take(0.05)
        while self.take(0):
            pass
        return self.job.returncode

    def is_as_before(self):
        """The modes of the terminal, its page and its cursor."""
        return (termios.tcgetattr(self.slave) == self.before and not self.screen.alternate
                and self.screen.cursor)  # fmt: skip

    def close(self):
        if self.job.poll() is None:
            os.killpg(self.job.pid, signal.SIGKILL)
        self.job.wait()
        os.close(self.master)
        os.close(self.slave)
