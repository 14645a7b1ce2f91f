# SPDX-License-Identifier: Apache-2.0
"""Networks without a switch, unconfigured: hosts joined by cables, a subnet each, whose kernels
forward nothing; and two hosts with several links."""

import json
import os
import re
import unittest

import shoal

REASON = shoal.lab_works()


def bench(ranks, lab, *more, env=None):
    return shoal.run(
        "bench", "allreduce", "--json", "--ranks", ranks, "--lab", lab, "--iters", 1, *more, env=env
    )


def received(ranks, lab, *command):
    """Bytes that each rank's cables have received in a job, [rank][cable]."""
    script = (
        " ".join(str(word) for word in (shoal.SHOAL, *command)) + " >/dev/null && cat /proc/net/dev"
    )
    r = shoal.run("run", "-n", ranks, "--tag-output", "--lab", lab, "--", "sh", "-c", script)
    assert r.returncode == 0, r.stderr
    found = {}
    for rank, cable, count in re.findall(r"\[(\d+)\]\s+cable(\d+):\s*(\d+)", r.stdout):
        found.setdefault(int(rank), {})[int(cable)] = int(count)
    return found


@unittest.skipIf(REASON, REASON)
class Cables(unittest.TestCase):
    def check(self, ranks, lab, *more):
        r = bench(ranks, lab, "--size", "1M", *more)
        self.assertEqual(r.returncode, 0, r.stderr)
        row = json.loads(r.stdout.splitlines()[-1])
        self.assertEqual(row["wrong"], 0)
        return row

    def test_ring(self):
        self.check(4, "cables=ring", "--collective", "ring:both")

    def test_line_of_five_relays_over_three(self):
        self.check(5, "cables=line", "--collective", "halving_doubling")

    def test_full_mesh(self):
        self.check(4, "cables=mesh", "--collective", "direct")

    def test_two_ranks_per_host(self):
        self.check(6, "hosts=3,cables=line", "--collective", "hierarchical")

    def test_relayed_connections_are_tls(self):
        self.check(3, "cables=line", "--transport", "tcp:tls=on")

    def test_measured_order(self):
        """All pairs are measured first, also those that a relay stands between."""
        r = bench(4, "cables=ring", "--size", "1M", "--collective", "ring:both,order=auto")
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_two_links_carry_together(self):
        counts = received(2, "rate=200mbit,cables=line:2", "bench", "allreduce", "--size", "16M")
        for cables in counts.values():
            self.assertEqual(len(cables), 2)
            self.assertGreater(min(cables.values()), 0.25 * max(cables.values()))

    def test_interface_restricts(self):
        r = bench(
            2,
            "rate=200mbit,cables=line:2",
            "--size",
            "1M",
            env={"SHOAL_INTERFACE": "cable0", "SHOAL_LOG": "info"},
        )
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("interface cable0", r.stderr)
        self.assertNotIn("more, used where", r.stderr)

    def test_a_dead_relay_is_named(self):
        """Rank 1 joins 0 and 2 and dies: it is the culprit, not who was behind it."""
        bench_for_ever = f"{os.path.abspath(shoal.SHOAL)} bench allreduce --size 4M --iters 900"
        job = f"[ $RANK = 1 ] && exec timeout -s KILL 1 {bench_for_ever}; exec {bench_for_ever}"
        r = shoal.run(
            "run",
            "-n",
            3,
            "--tag-output",
            "--lab",
            "cables=line",
            "--",
            "sh",
            "-c",
            job,
        )
        self.assertNotEqual(r.returncode, 0)
        for rank in (0, 2):
            lines = [
                line for line in (r.stdout + r.stderr).splitlines() if line.startswith(f"[{rank}]")
            ]
            errors = [line for line in lines if "rank" in line and "bench" in line]
            self.assertTrue(errors, r.stdout + r.stderr)
            self.assertIn("rank 1", errors[0])

    def test_bad_cables_are_refused(self):
        for spec in ("cables=torus", "cables=line:0", "cables"):
            r = shoal.run("run", "-n", 2, "--lab", spec, "--", "true")
            self.assertEqual(r.returncode, 2)
            self.assertIn("line, ring or mesh", r.stderr)


if __name__ == "__main__":
    shoal.main()
