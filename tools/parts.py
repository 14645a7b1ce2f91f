#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training runs of 4 and 5 ranks in the lab whose network falls into two parts, in every way: each
bipartition, with resets, silent and one way, for good and healed after 1, 5 and 30 s; the protocol,
and whether it happens early or at the final mean, are drawn from the seed. Whatever happens there
are never two halves; and the part that may go on does, the others come back or end with code 6.

    tools/parts.py [--rounds N] [--seed S] [--jobs J] [--only TEXT] [--minutes M]

A case that failed is printed with what its ranks said; the exit code is then 1."""

import argparse
import itertools
import math
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.chdir(ROOT)
os.environ.setdefault("SHOAL_BUILD", "build/release")
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
import parted  # noqa: E402
import shoal  # noqa: E402

KINDS = ("reset", "silent", "one-way")
HEALS = (None, 1, 5, 30)
# Graphs that no loss cuts: else the job ends, with code 5.
SYNCS = (
    ("all_reduce", "reform"), ("local_sgd:every=4", "stop"), ("hop:graph=complete", "stop"),
    ("ripples:smart", "stop"), ("local_sgd:every=4", "reform"), ("hop:graph=complete", "reform"),
    ("d_psgd:graph=complete", "stop"),
)  # fmt: skip
PEER_TIMEOUT_S, STEP_MS, LATE_S = 2, 60, 300


def bipartitions(ranks):
    """Rank 0 on the left; then the same the other way round, which matters one way only."""
    for size in range(1, ranks):
        for left in itertools.combinations(range(ranks), size):
            if 0 in left:
                yield left, tuple(r for r in range(ranks) if r not in left)


def cases(rng):
    found = []
    for ranks in (4, 5):
        for (left, right), how, heal_s in itertools.product(bipartitions(ranks), KINDS, HEALS):
            sync, on_loss = rng.choice(SYNCS)
            if how == "one-way" and rng.random() < 0.5:
                left, right = right, left
            # As long as it lasts with all ranks; those who go on alone take longer.
            seconds = 5 + 2 * PEER_TIMEOUT_S + (heal_s or 0)
            per_epoch = parted.SAMPLES // parted.BATCH // ranks
            epochs = 1 + int(seconds / (per_epoch * STEP_MS * 1e-3))
            steps = per_epoch * epochs
            late = on_loss == "stop" and rng.random() < 0.4
            after = steps - rng.randrange(20) if late else rng.randrange(4, 40)
            found.append(parted.Case(sync, left, right, on_loss, how, heal_s, after, epochs,
                                     STEP_MS, PEER_TIMEOUT_S, checkpoint_every=20))  # fmt: skip
    return found


class Runner:
    def __init__(self, folder, data, minutes):
        self.folder, self.data = folder, data
        self.until = time.monotonic() + 60 * minutes if minutes else math.inf
        self.lock, self.count = threading.Lock(), itertools.count()
        self.passed = self.halves = self.stuck = 0

    def one(self, case):
        with self.lock:
            out = os.path.join(self.folder, f"run-{next(self.count)}")
        try:
            outcome = parted.play(case, out, self.data, LATE_S + (case.heal_s or 0))
            never = parted.two_halves(case, outcome)
            hoped = parted.not_as_hoped(case, outcome)
            said = outcome.run.stderr + f"codes {outcome.codes}"
        except subprocess.TimeoutExpired as late:
            never, hoped = [], ["it does not come to an end"]
            said = (late.stderr or b"").decode(errors="replace")
        with self.lock:
            self.halves += bool(never)
            self.stuck += bool(hoped) and not never
            self.passed += not never and not hoped
            if never or hoped:
                print(f"{case}: {'; '.join(never + hoped)}\n{said}", flush=True)
            else:
                print(f"{case}: {outcome.went_on()} went on", flush=True)

    def work(self, left):
        while True:
            with self.lock:
                if not left or time.monotonic() > self.until:
                    return
                case = left.pop()
            self.one(case)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "little"))
    parser.add_argument("--jobs", type=int, default=2, help="so many at once")
    parser.add_argument("--only", default="", help="cases whose line contains this")
    parser.add_argument("--minutes", type=float, help="begin no case later")
    options = parser.parse_args()
    reason = shoal.lab_works()
    if reason:
        print(f"parts.py: {reason}", file=sys.stderr)
        sys.exit(77)
    print(f"seed {options.seed}", flush=True)
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="shoal-parts-") as folder:
        data = os.path.join(folder, "data")
        made = shoal.run("data", "digits", "--out", data, "--train", parted.SAMPLES, "--test", 40)
        assert made.returncode == 0, made.stderr
        runner = Runner(folder, data, options.minutes)
        for _ in range(options.rounds):
            left = [case for case in cases(rng) if options.only in str(case)]
            rng.shuffle(left)
            workers = [threading.Thread(target=runner.work, args=(left,))
                       for _ in range(options.jobs)]  # fmt: skip
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            print(
                f"parts: {runner.passed} passed, {runner.halves} with two halves, "
                f"{runner.stuck} that did not go on or end as they should", flush=True,
            )  # fmt: skip
    sys.exit(1 if runner.halves or runner.stuck else 0)


if __name__ == "__main__":
    main()
