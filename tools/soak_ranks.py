#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training runs in the lab with random faults, for as long as asked (bench/claims/soak.py). A
violation prints its run and the seed; the exit code is then 1.

usage: tools/soak_ranks.py MINUTES [SEED]"""

import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "claims"))
import soak  # noqa: E402

ROUND = 10


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    end = time.monotonic() + 60 * float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int.from_bytes(os.urandom(3), "little")
    faults, bad = 0, []
    while True:
        print(f"seed {seed}", flush=True)
        try:
            found = soak.run(seed, ROUND, say=lambda text: print(text, flush=True))
        except soak.Cannot as reason:
            print(f"soak_ranks.py: {reason}", file=sys.stderr)
            sys.exit(77)
        faults += found["faults"]
        bad += found["violations"]
        for what in found["violations"]:
            print(f"seed {seed}: {what}", file=sys.stderr, flush=True)
        if time.monotonic() >= end:
            break
        seed += ROUND
    print(f"soak of ranks: {faults} faults, {len(bad)} violations")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
