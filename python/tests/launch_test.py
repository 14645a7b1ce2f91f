#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shoal.launch: what ranks return, see and raise; none outlives the call."""

import array
import os
import signal
import select
import socket
import subprocess
import sys
import threading
import unittest

import shoal
from shoal.launching import reserved_port

FACTOR = 3


def total(first, second):
    values = array.array("f", [first + shoal.rank(), second])
    shoal.allreduce(values)
    return shoal.rank(), shoal.world_size(), list(values)


class LaunchTest(unittest.TestCase):
    def test_a_reserved_port_is_so_on_all_addresses(self):
        with reserved_port() as reserved:
            port = reserved.getsockname()[1]
            with socket.socket() as other, self.assertRaises(OSError):
                other.bind(("127.0.0.2", port))
            with socket.socket() as owner:  # as rank 0 listens
                owner.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                owner.bind(("", port))
                owner.listen()

    def no_children(self):
        with self.assertRaises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)

    def test_results_by_rank(self):
        found = shoal.launch(total, 3, 1, 2)
        self.assertEqual([(r, 3, [6.0, 6.0]) for r in range(3)], found)
        self.no_children()

    def test_functions_that_cannot_be_sent(self):
        seen = {"here": 5}

        def local():
            seen["here"] += 1
            return FACTOR * seen["here"] + shoal.rank()

        self.assertEqual([18, 19], shoal.launch(local, 2))
        self.assertEqual(5, seen["here"])
        self.assertEqual([18], shoal.launch(lambda: local(), 1))

    def test_a_rank_that_raises_ends_all(self):
        def raises():
            if shoal.rank() == 1:
                raise LookupError("no such batch")
            shoal.barrier()

        with self.assertRaisesRegex(shoal.RankFailed, "rank 1:(.|\n)*no such batch") as caught:
            shoal.launch(raises, 3)
        self.assertIsInstance(caught.exception.__cause__, LookupError)
        self.assertEqual(1, caught.exception.rank)
        self.no_children()

    def test_a_rank_that_is_killed(self):
        def dies():
            shoal.barrier()
            if shoal.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            threading.Event().wait(60)

        with self.assertRaisesRegex(shoal.RankFailed, "rank 1 died: SIGKILL"):
            shoal.launch(dies, 2)
        self.no_children()

    def test_who_calls_is_killed(self):
        """Ranks hold the pipe that they print into: it ends when the last of them has ended."""
        program = """
import os, threading, shoal
def wait():
    os.write(1, b"here ")
    threading.Event().wait(100)
shoal.launch(wait, 2)
"""
        caller = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        with caller:
            said = b""
            while said.count(b"here") < 2:
                said += os.read(caller.stdout.fileno(), 100)
            caller.kill()
            ready, _, _ = select.select([caller.stdout], [], [], 60)
            self.assertTrue(ready, "ranks live on")
            self.assertEqual(b"", os.read(caller.stdout.fileno(), 100))

    def test_a_deadline(self):
        def late():
            if os.environ["RANK"] == "1":
                threading.Event().wait(60)

        with self.assertRaisesRegex(shoal.DeadlinePassed, "ranks 1 have not returned within 3"):
            shoal.launch(late, 2, timeout=3)
        self.no_children()

    def test_what_cannot_be(self):
        with self.assertRaisesRegex(shoal.RankFailed, "what rank 0 returns cannot be sent"):
            shoal.launch(lambda: threading.Lock(), 1)
        with self.assertRaisesRegex(ValueError, "1 to 1024, not 0"):
            shoal.launch(total, 0)
        with self.assertRaisesRegex(TypeError, "calls a function, not int"):
            shoal.launch(3, 2)
        shoal.init(rank=0, world_size=1)
        with self.assertRaisesRegex(shoal.InvalidArgument, "a rank itself"):
            shoal.launch(total, 2, 1, 2)
        shoal.close()


if __name__ == "__main__":
    unittest.main()
