# SPDX-License-Identifier: Apache-2.0
"""What the command-line tests share: run the command with a deadline, or skip with a reason."""
import os
import subprocess
import sys
import unittest

BUILD = os.environ.get("SHOAL_BUILD", "build/dev")
SHOAL = os.environ.get("SHOAL") or os.path.join(BUILD, "shoal")
SKIP = 77


def run(*args, timeout=60, env=None, input=None):
    """Run `shoal ARGS`; returns CompletedProcess with text output."""
    full = dict(os.environ, **(env or {}))
    return subprocess.run(
        [SHOAL, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=full,
        input=input,
        check=False,
    )


def lab_works():
    """The reason why no lab can be made here, or None. From now on the address sanitizer looks for
    no leaks: in a lab processes have ids that the host's /proc, where it looks, does not know."""
    os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=0")
    probe = run("run", "-n", "1", "--lab", "rate=100mbit", "--", "true")
    return probe.stderr.strip() if probe.returncode == SKIP else None


def main():
    """unittest.main, but exit 77 when every test was skipped."""
    program = unittest.main(exit=False, verbosity=2)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun == len(result.skipped):
        print("skipped:", "; ".join({reason for _, reason in result.skipped}))
        sys.exit(SKIP)
