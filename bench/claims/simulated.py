# SPDX-License-Identifier: Apache-2.0
"""What the claims about protocols in simulation share: `shoal sim --json` and their setting.

The setting of specs and claims alike: 16 workers as 4 hosts x 4 that share a NIC, a megabyte of
parameters exchanged as one operation, a compute time of 200 ms with a jitter of +-5 %. The rate of
the NICs makes A, the time of one hierarchical all-reduce, a given share of the compute time."""

import json
import os
import subprocess
import sys

import claim

SHOAL = os.path.join(claim.ROOT, "build", "release", "shoal")
WORKERS, HOSTS, PARAMS, COMPUTE_MS, JITTER = 16, 4, 250000, 200, 0.05
ALL_REDUCE = ("all_reduce", "--collective", "hierarchical:dims=4/4")


def sim(sync, *args, compute="", rate_mbit=120.0, seconds=400, seed=1, jitter=JITTER):
    """One run's JSON."""
    if not os.access(SHOAL, os.X_OK):
        sys.exit(f"{SHOAL} is missing: make build")
    name, *more = (sync,) if isinstance(sync, str) else sync
    command = [SHOAL, "sim", "--json", "--no-mixing", "--workers", str(WORKERS)]
    command += ["--params", str(PARAMS), "--bucket", "model", "--seed", str(seed)]
    command += ["--network", f"links:rate={rate_mbit:.6f}mbit,hosts={HOSTS},latency_us=50"]
    command += ["--compute", f"fixed:ms={COMPUTE_MS},jitter={jitter}{compute}"]
    if "--iterations" not in args:
        command += ["--seconds", str(seconds)]
    command += ["--sync", name, *more, *args]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def per_s(sync, **setting):
    """Iterations of all workers per second."""
    return sim(sync, **setting)["iterations_per_s"]


def rate_for(a):
    """NIC rate at which a hierarchical all-reduce takes a compute times, and the A that it gives.

    Bytes go by 1 / rate and latencies stay, so one correction is enough."""
    wanted_s, rate_mbit = a * COMPUTE_MS / 1e3, 120.0
    for _ in range(3):
        took_s = all_reduce_s(rate_mbit)
        rate_mbit *= took_s / wanted_s
    return rate_mbit, all_reduce_s(rate_mbit) / (COMPUTE_MS / 1e3)


def all_reduce_s(rate_mbit):
    """A in seconds, measured alone: an iteration without jitter, less its compute time."""
    run = sim(ALL_REDUCE, "--iterations", "10", rate_mbit=rate_mbit, jitter=0)
    return run["duration_s"] / 10 - COMPUTE_MS / 1e3
