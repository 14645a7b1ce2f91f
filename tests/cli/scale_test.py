# SPDX-License-Identifier: Apache-2.0
"""Many ranks on one machine (docs/scale.md): connections and shared memory are counted, nothing is
timed."""
import json
import os
import subprocess
import unittest

import shoal

RANKS = 36  # beyond 32 members other rules hold
OTHERS = 8  # listeners, the launcher's
BENCH = os.path.join(shoal.BUILD, "bench", "scale_bench")


def near(rank):
    """With whom a rank shares memory: at distances that are powers of two, around the ring."""
    powers = {1 << bit for bit in range(RANKS.bit_length())}
    return sum(
        (rank - other) % RANKS in powers or (other - rank) % RANKS in powers
        for other in range(RANKS)
        if other != rank
    )


@unittest.skipUnless(os.path.exists(BENCH), "scale_bench is not built")
class Scale(unittest.TestCase):
    def test_connections_and_memory_of_many_ranks(self):
        command = [shoal.SHOAL, "run", "-n", str(RANKS), "--", BENCH, "--times", "1"]
        r = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(0, r.returncode, r.stderr[-2000:])
        lines = [line for line in r.stdout.splitlines() if '{"rank"' in line]
        rows = [json.loads(line[line.index("{") :]) for line in lines]
        self.assertEqual(list(range(RANKS)), sorted(row["rank"] for row in rows))
        for row in rows:
            memory = near(row["rank"])
            self.assertLess(memory, 13)
            # control with each other rank, one for each shared memory, and no data by TCP
            self.assertLessEqual(row["sockets"], RANKS - 1 + memory + OTHERS, row)
            # two rings and the other's bell for each, and the own bell
            self.assertLessEqual(row["memories"], 3 * memory + 4, row)


if __name__ == "__main__":
    shoal.main()
