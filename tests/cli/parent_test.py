# SPDX-License-Identifier: Apache-2.0
"""SHOAL_PARENT: a command that a program has started does not outlive it, even where that program
is killed; nor do its ranks. A thread of the program that ends is not its end."""
import os
import subprocess
import sys
import tempfile
import unittest

import shoal

LAB = shoal.lab_works()
# Starts the command, says which process it is, and waits to be killed.
STARTER = """
import os, subprocess, sys, threading
environment = dict(os.environ, SHOAL_PARENT=str(os.getpid()))
def start():
    job = subprocess.Popen(sys.argv[1:], env=environment, stdout=subprocess.DEVNULL)
    print(job.pid, flush=True)
thread = threading.Thread(target=start)
thread.start()
thread.join()
sys.stdin.read()
"""


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def family(pid):
    return [pid] + [member for child in children(pid) for member in family(child)]


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def named(pids, name):
    """How many of these processes run that program."""
    found = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/comm", encoding="ascii") as file:
                found += file.read().strip() == name
        except OSError:
            pass
    return found


class Parent(unittest.TestCase):
    def start(self, *words):
        starter = subprocess.Popen(
            [sys.executable, "-c", STARTER, os.path.abspath(shoal.SHOAL), *map(str, words)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(starter.__exit__, None, None, None)
        self.addCleanup(starter.kill)
        return starter, int(starter.stdout.readline())

    def kill_and_look(self, starter, job, count, name):
        """The starter is killed when so many processes of the command run that program; all of
        the command's end."""
        shoal.wait_until(lambda: named(family(job), name) >= count, 60)
        everybody = family(job)
        starter.kill()
        shoal.wait_until(lambda: not any(map(lives, everybody)), 60)
        return starter.stderr.read()

    def test_ranks_end_with_the_program_that_started_the_launcher(self):
        starter, job = self.start("run", "-n", 2, "--", "sleep", 1000)
        said = self.kill_and_look(starter, job, 2, "sleep")
        self.assertIn("the process of SHOAL_PARENT has ended", said)

    @unittest.skipIf(LAB, LAB)
    def test_in_a_lab(self):
        words = ("run", "-n", 2, "--lab", "rate=100mbit", "--", "sleep", 1000)
        self.kill_and_look(*self.start(*words), 2, "sleep")

    def test_a_training(self):
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "data")
            made = shoal.run("data", "digits", "--out", data, "--train", 200, "--test", 50)
            self.assertEqual(0, made.returncode, made.stderr)
            starter, job = self.start(
                "train", "--model", "mlp-small", "--data", data, "--workers", 2, "--batch", 8,
                "--steps", 1000000, "--compute-ms", 100, "--no-eval",
            )
            self.kill_and_look(starter, job, 3, "shoal")

    def test_without_ranks(self):
        starter, job = self.start("sim", "--workers", 64, "--iterations", 100000000)
        self.kill_and_look(starter, job, 1, "shoal")

    def test_ranks_do_not_get_it(self):
        mine = {"SHOAL_PARENT": str(os.getpid())}
        done = shoal.run("run", "-n", 1, "--", "sh", "-c", "echo [$SHOAL_PARENT]", env=mine)
        self.assertEqual((0, "[]\n"), (done.returncode, done.stdout), done.stderr)

    def test_who_has_ended_already_and_who_is_nobody(self):
        with subprocess.Popen(["true"]) as gone:
            pass
        done = shoal.run("list", "codecs", env={"SHOAL_PARENT": str(gone.pid)})
        self.assertEqual(1, done.returncode)
        self.assertIn(f"cannot watch process {gone.pid} (SHOAL_PARENT): it has ended", done.stderr)
        for text in ("me", "0", "-1", "1.5", "99999999999"):
            done = shoal.run("list", "codecs", env={"SHOAL_PARENT": text})
            self.assertEqual(2, done.returncode, text)
            self.assertIn("SHOAL_PARENT is the number of a process", done.stderr)

    def test_a_usual_end(self):
        mine = {"SHOAL_PARENT": str(os.getpid())}
        done = shoal.run("run", "-n", 2, "--", "true", env=mine)
        self.assertEqual((0, ""), (done.returncode, done.stderr))


if __name__ == "__main__":
    shoal.main()
