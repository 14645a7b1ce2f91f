# SPDX-License-Identifier: Apache-2.0
"""What the command-line tests share: run the command with a deadline, or skip with a reason."""
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BUILD = os.environ.get("SHOAL_BUILD", "build/dev")
SHOAL = os.environ.get("SHOAL") or os.path.join(BUILD, "shoal")
SKIP = 77
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("SHOAL_HOSTS_WAIT", "60")  # a login may take long on a busy machine
# A shell's `&` and nohup have them ignored, and who is started inherits that.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
# Whatever we start ends with us: a test that runs past its limit is killed, and leaves no orphans.
os.environ.setdefault("SHOAL_PARENT", str(os.getpid()))


def run(*args, timeout=120, env=None, input=None, cwd=None):
    """Run `shoal ARGS`; returns CompletedProcess with text output."""
    full = dict(os.environ, **(env or {}))
    return subprocess.run(
        [os.path.abspath(SHOAL) if cwd else SHOAL, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=full,
        input=input,
        cwd=cwd,
        check=False,
    )


def usual(options, given):
    """The words of {"--name": value} that `given` does not say: nothing may be said twice."""
    return [w for pair in options.items() if pair[0] not in given for w in pair]


@contextlib.contextmanager
def shell_for_ssh():
    """A program for SHOAL_RSH that runs what it is given here, whatever the host."""
    with tempfile.TemporaryDirectory(prefix="shoal-rsh-") as folder:
        path = os.path.join(folder, "rsh")
        with open(path, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\nexec sh -c "$2"\n')
        os.chmod(path, 0o700)
        yield path


def lab_works():
    """The reason why no lab can be made here, or None. From now on the address sanitizer looks for
    no leaks: in a lab processes have ids that the host's /proc, where it looks, does not know."""
    os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=0")
    probe = run("run", "-n", "1", "--lab", "rate=100mbit", "--", "true")
    return probe.stderr.strip() if probe.returncode == SKIP else None


def is_sanitized():
    """Whether sanitizers are in the command: it takes longer, and memory that no limit allows."""
    with open(SHOAL, "rb") as file:
        return b"__asan_init" in file.read()


def wait_until(condition, seconds=60):
    """Until condition() is true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("not within the deadline")
        threading.Event().wait(0.01)


def reserved_port(address=""):
    """A bound socket: nobody else is given its port while it is open, and who is told its number
    may listen there. A port that was free a moment ago may be anybody's by now."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((address, 0))
    return reserved


def rank_of(pid, spares=True):
    """The rank of a process, by its environment; None: it has none, or is gone, or a spare."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            env = dict(e.split(b"=", 1) for e in file.read().split(b"\0") if b"=" in e)
        return int(env[b"RANK"]) if spares or b"SHOAL_SPARE" not in env else None
    except (OSError, KeyError, ValueError):
        return None


def ranks_of(launcher, spares=True):
    """{rank: process} of those that a launcher has started and that are there; spares have the
    rank 0 until they have a place."""
    try:
        with open(f"/proc/{launcher}/task/{launcher}/children", encoding="ascii") as file:
            children = map(int, file.read().split())
            return {rank: pid for pid in children if (rank := rank_of(pid, spares)) is not None}
    except OSError:
        return {}


def main():
    """unittest.main, but exit 77 when every test was skipped."""
    program = unittest.main(exit=False, verbosity=2)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun == len(result.skipped):
        print("skipped:", "; ".join({reason for _, reason in result.skipped}))
        sys.exit(SKIP)
