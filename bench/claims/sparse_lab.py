# SPDX-License-Identifier: Apache-2.0
"""Sparse all-reduce in the lab: what omnireduce-sparse and omnireduce-dense measure.

    lab = sparse_lab.Lab(quick)
    cell = lab.omnireduce("100M", 0.01, overlap=False, where="dedicated")
    ring_us = lab.ring("100M")

A cell is one row of `shoal bench allreduce --json`: 8 workers, each behind its own link of
100 Mbit/s, 8 daemons behind theirs ("dedicated"), on the workers' hosts ("daemons beside the
workers") or none, the workers being the shards themselves ("co-located"). Finished cells are kept
(cells.py), by their whole command, so a run that is cut goes on where it was; SHOAL_TIMED is a
command before each one, for machines that others use, too."""

import json
import os
import shlex
import subprocess
import sys

import claim
from cells import Cells

sys.path.insert(0, os.path.join(claim.ROOT, "bench", "peers"))
import contest  # noqa: E402

WHERE = {
    "dedicated": ["--collective", "omnireduce:dedicated", "--aggregators"],
    "daemons beside the workers": ["--collective", "omnireduce:dedicated", "--colocate"]
    + ["--aggregators"],
    "co-located": ["--collective", "omnireduce"],
}
BYTES = {"1M": 1 << 20, "4M": 4 << 20, "16M": 16 << 20, "100M": 100 << 20}


def cells():
    """Those of the claim that runs."""
    return Cells("sparse", os.path.basename(sys.argv[0]))


def run(command, same=list):
    """A finished row, kept or new. same(command): what of it tells runs apart."""
    return cells().get(["row", *same(command[1:])], lambda: measured(command))


def measured(command):
    timed = shlex.split(os.environ.get("SHOAL_TIMED", ""))
    done = subprocess.run(timed + command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode == claim.CANNOT:
        raise contest.Cannot(done.stderr.strip())
    rows = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or len(rows) != 1:
        raise contest.Failed(f"{shlex.join(command)}: {done.returncode}: {done.stderr[-400:]}")
    row = json.loads(rows[0])
    if row.get("wrong"):
        raise contest.Failed(f"{shlex.join(command)}: {row['wrong']} wrong elements")
    return row


class Lab:
    """8 x 100 Mbit/s, or 4 x 100 Mbit/s for a quick answer."""

    def __init__(self, quick):
        self.workers, self.rate = (4 if quick else 8), "100mbit"
        if not os.path.exists(contest.SHOAL):
            raise contest.Cannot("build/release/shoal is not built: make build")

    def bench(self, size, iterations, warmup, *more):
        """One row of the benchmark."""
        return run(
            [contest.SHOAL, "bench", "allreduce", "--json", "--ranks", str(self.workers)]
            + ["--lab", f"rate={self.rate}", "--size", size, "--iters", str(iterations)]
            + ["--warmup", str(warmup), *more]
        )

    def omnireduce(self, size, density, overlap, where):
        """One sparse cell, printed."""
        more = ["--density", str(density)] + (["--overlap"] if overlap else []) + WHERE[where]
        if "--aggregators" in more:
            more.append(str(self.workers))
        slow = BYTES[size] * (1 if density > 0.05 else 0.1) > 30e6
        row = self.bench(size, 2 if slow else 7, 1, *more)
        pattern = "overlapping" if overlap else "random"
        print(
            f"{where:>12} {size:>5} {100 * (1 - density):4.0f} % zero, {pattern:<11}: "
            f"{row['time_us'] / 1e3:9.1f} ms = {row['of_ceiling']:.3f} of the pattern's ceiling "
            f"{row['ceiling_us'] / 1e3:.1f} ms (naive {row['naive_us'] / 1e3:.1f} ms)",
            flush=True,
        )
        return row

    def ring(self, size):
        """Our dense ring, microseconds."""
        row = self.bench(size, 1, 1 if BYTES[size] < 30e6 else 0, "--collective", "ring")
        print(f"  shoal ring {size:>5}: {row['time_us'] / 1e3:9.1f} ms", flush=True)
        return row["time_us"]

    def gloo(self, size):
        """Gloo's ring, microseconds."""
        contest.build()
        entrant = contest.gloo("ring")
        sizes = contest.Range(BYTES[size], BYTES[size], 2, 1, 0)

        def measure():
            found = contest.hold(self.workers, f"rate={self.rate}", [entrant], (sizes,), 1)
            if entrant.name in found.errors:
                raise contest.Failed(found.errors[entrant.name])
            return {"time_us": found.time_us(entrant.name, BYTES[size])}

        kept = cells().get(["gloo", self.workers, self.rate, size], measure)
        print(f"   gloo ring {size:>5}: {kept['time_us'] / 1e3:9.1f} ms", flush=True)
        return kept["time_us"]


def clicks(folder, seed, samples=20000):
    """Generated click logs; the folder that they are in."""
    data = os.path.join(folder, "clicks")
    command = [contest.SHOAL, "data", "clicks", "--out", data, "--test", "100"]
    command += ["--train", str(samples), "--seed", str(seed)]
    subprocess.run(command, check=True, capture_output=True)
    return data


def recommender(workers, rate, collective, steps, data, batch=32):
    """The row of a training run, a daemon to each worker, printed."""
    command = [contest.SHOAL, "run", "-n", str(workers), "-a", str(workers)]
    command += ["--lab", f"rate={rate}", "--", contest.SHOAL, "train", "--json", "--quiet"]
    command += ["--model", "recommender", "--data", data, "--batch", str(batch), "--no-eval"]
    command += ["--epochs", "100", "--steps", str(steps), "--optimizer", "sgd:momentum=0"]
    command += ["--lr", "0.1", "--bucket", "32M", "--collective", collective]
    row = run(command, same=lambda words: [w for w in words if w != data])
    row["step_s"] = row["seconds"] / row["steps"]
    print(
        f"{workers} x {rate} {collective}: {1e3 * row['step_s']:8.1f} ms a step, "
        f"{row['payload_bytes_per_step'] / 1e6:.3f} MB sent by all, "
        f"train loss {row['train_loss']:.5f}",
        flush=True,
    )
    return row


def brief(row):
    """What of a row goes into the results."""
    return {
        "ms": round(row["time_us"] / 1e3, 1),
        "of_ceiling": row["of_ceiling"],
        "ceiling_ms": round(row["ceiling_us"] / 1e3, 1),
        "naive_ms": round(row["naive_us"] / 1e3, 1),
        "density": row["density"],
        "union": row["union"],
        "cpu_s_per_gb": row["cpu_s_per_gb"],
    }
