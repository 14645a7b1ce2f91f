#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make check-engines: Shoal under engines that people have, on four hosts of this machine.

check.py BUILD-FOLDER [NAME...] runs tests/engines/*_test.py, or those whose name has a NAME in it,
one after the other, as root where it is not. What cannot be had here is skipped, with its reason.
The last line is `N passed, N failed, N skipped`, of files."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT_S = 600  # of one file
FETCH_S = 1200
END_S = 60
SKIP = 77


def as_root():
    if os.geteuid() == 0:
        return []
    can = subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode == 0
    return ["sudo", "-n", "--preserve-env=SHOAL_BUILD"] if can else []


def fetch(build, files):
    """The Python index's packages, before any file's time runs: they may take minutes. What could
    not be had is said, as a skip, by the files that want it."""
    if not any("python_packages" in file.read_text(encoding="utf-8") for file in files):
        return
    words = [*as_root(), sys.executable, "-B", "-c", "import python_packages as p; p.environment()"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(words, env=dict(os.environ, SHOAL_BUILD=str(build)), cwd=HERE,
                       stdin=subprocess.DEVNULL, timeout=FETCH_S)


def stop(child):
    """First so that it can take away its hosts and their folder. @return what it printed"""
    os.killpg(child.pid, signal.SIGTERM)
    try:
        return child.communicate(timeout=END_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        return child.communicate()[0]


def run(build, file):
    """(outcome, seconds, what it printed) of one file of tests."""
    begin = time.monotonic()
    child = subprocess.Popen(
        [*as_root(), sys.executable, "-B", "-W", "ignore", str(file)],
        env=dict(os.environ, SHOAL_BUILD=str(build)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        printed, code = child.communicate(timeout=LIMIT_S)[0], child.returncode
    except subprocess.TimeoutExpired:
        printed, code = stop(child) + f"\nno end within {LIMIT_S} s", 1
    outcome = {0: "passed", SKIP: "skipped"}.get(code, "failed")
    return outcome, time.monotonic() - begin, printed


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.split("\n\n")[1].split(".")[0])
    build, names = Path(sys.argv[1]).resolve(), sys.argv[2:]
    files = [f for f in sorted(HERE.glob("*_test.py"))
             if not names or any(name in f.stem for name in names)]
    fetch(build, files)
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for file in files:
        outcome, seconds, printed = run(build, file)
        count[outcome] += 1
        print(f"{outcome} {file.stem} ({seconds:.0f} s)", flush=True)
        for line in printed.splitlines():
            told = outcome == "failed" or line.startswith(("skipped: ", "Ran ", "measured: "))
            if told or " ... " in line:
                print(f"    {line}", flush=True)
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    sys.exit(1 if count["failed"] else 0)


if __name__ == "__main__":
    main()
