#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training runs in the lab with random faults, for as long as asked (bench/claims/soak.py). A
violation prints the seed of its run; the exit code is then 1.

usage: tools/soak_ranks.py MINUTES [SEED] [any]
any: protocols whose replicas differ, one drawn for each run, instead of all_reduce"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "claims"))
import soak  # noqa: E402


def main():
    words = [word for word in sys.argv[1:] if word != "any"]
    if not words:
        sys.exit(__doc__)
    seed = int(words[1]) if len(words) > 1 else int.from_bytes(os.urandom(3), "little")
    print(f"seed {seed}", flush=True)
    try:
        found = soak.run(seed, 1, 60 * float(words[0]), say=lambda text: print(text, flush=True),
                         any_protocol="any" in sys.argv)
    except soak.Cannot as reason:
        print(f"soak_ranks.py: {reason}", file=sys.stderr)
        sys.exit(77)
    for what in found["violations"] + found["disturbed"]:
        print(what, file=sys.stderr)
    print(
        f"soak of ranks: {found['faults']} faults {found['kinds']}, {found['steps']} steps, "
        f"replicas compared after {found['compared']}; {len(found['violations'])} violations, "
        f"{len(found['disturbed'])} failures while the machine stood still"
    )
    sys.exit(1 if found["violations"] else 0)


if __name__ == "__main__":
    main()
