# SPDX-License-Identifier: Apache-2.0
"""An environment of the Python index's packages (packages-engines-python.txt), made once; Debian's
own, as PyTorch, are seen in it."""
import os
import subprocess
import sys

import cluster

LIST = os.path.join(cluster.ROOT, "packages-engines-python.txt")
FOLDER = os.path.join(cluster.BUILD, "engines-python")
INSIDE = "SHOAL_ENGINES_PYTHON"
DEBIANS = "/usr/bin/python3"


def environment():
    """Its Python, or a reason why there is none."""
    python, mark = os.path.join(FOLDER, "bin", "python"), os.path.join(FOLDER, "list")
    with open(LIST, encoding="ascii") as file:
        wanted = file.read()
    if os.path.exists(mark):
        with open(mark, encoding="ascii") as file:
            if file.read() == wanted:
                return python, None
    names = [line.split("#")[0].strip() for line in wanted.splitlines()]
    for words in (
        [DEBIANS, "-m", "venv", "--clear", "--system-site-packages", FOLDER],
        [python, "-m", "pip", "install", "-q", *filter(None, names)],
    ):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            return None, (done.stderr or done.stdout).strip().splitlines()[-1]
    with open(mark, "w", encoding="ascii") as file:
        file.write(wanted)
    return python, None


def need():
    """Skip this file with a reason where there is no such environment. @return its Python"""
    python, reason = environment()
    if reason is not None:
        print(f"skipped: {reason}")
        sys.exit(cluster.SKIP)
    return python


def enter():
    """This program goes on in that Python, or is skipped with a reason."""
    if not os.environ.get(INSIDE):
        words = [need(), "-B", "-W", "ignore", *sys.argv]
        os.execve(words[0], words, {**os.environ, INSIDE: "1"})
