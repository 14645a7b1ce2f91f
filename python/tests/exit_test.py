#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""However a program ends while operations are under way, the interpreter ends with it: no crash, no
hang. claims/python-exit does it a hundred times; here each way once."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import launch

launch.needs("numpy")

PROGRAM = """
import os, random, signal, sys, threading, time
import numpy, shoal
way, seed = sys.argv[1], int(sys.argv[2])
comm = shoal.comm()
data = numpy.zeros(200_000, numpy.float32)
steps = random.Random(seed).randrange(1, 8)
for step in range(steps):
    comm.allreduce(data)
left = [comm.start("all_reduce", numpy.zeros(50_000, numpy.float32)) for _ in range(3)]
if way == "exception":
    raise KeyError("meant")
if way == "sys.exit":
    sys.exit(3)
if way == "interrupt":
    signal.raise_signal(signal.SIGINT)
if way == "thread":
    threading.Thread(target=lambda: left[0].exception(), daemon=True).start()
if way == "fork":
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
if way == "closed":
    comm.close()
if way == "global":
    keep = comm, left
"""
EXPECTED = {
    "normal": 0,
    "exception": 1,
    "sys.exit": 3,
    "interrupt": -signal.SIGINT,
    "thread": 0,
    "fork": 0,
    "closed": 0,
    "global": 0,
}


def run(way, seed, ranks=2, limit_s=60):
    """Problems of one run, [] if there are none."""
    folder, jobs = tempfile.mkdtemp(prefix="shoal-exit-"), []
    for rank in range(ranks):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks)}
        env.update(SHOAL_RENDEZVOUS=f"file://{folder}/job")
        command = [sys.executable, "-c", PROGRAM, way, str(seed)]
        jobs.append(subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True))
    problems = []
    for rank, job in enumerate(jobs):
        try:
            _, errors = job.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            job.kill()
            job.communicate()
            problems.append(f"{way}, seed {seed}: rank {rank} did not end")
            continue
        # A rank whose peer went first may be told so in words.
        told = "shoal.PeerLost" in errors or "shoal.Cancelled" in errors
        if job.returncode != EXPECTED[way] and not (job.returncode == 1 and told):
            problems.append(
                f"{way}, seed {seed}: rank {rank} ended with {job.returncode}: {errors}"
            )
    shutil.rmtree(folder)
    return problems


class ExitTest(unittest.TestCase):
    def test_each_way_ends(self):
        seed = random.randrange(1 << 30)
        for way in EXPECTED:
            self.assertEqual([], run(way, seed))


if __name__ == "__main__":
    unittest.main()
