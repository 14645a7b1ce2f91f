# SPDX-License-Identifier: Apache-2.0
"""A network that falls into parts which do not reach each other, and resets what connected them, as
a switch or a firewall may: one part at most goes on and writes, whatever each believes of the
other. The others end with code 6, or come back. Real processes, each in a network namespace of its
own."""

import json
import os
import tempfile
import threading
import unittest

import shoal

REASON = shoal.lab_works()

# As soon as a rank has made some steps, it loses the other part: no way there, connections reset.
JOB = """
export SHOAL_STATUS_DIR={out}.status
file={out}/metrics.jsonl
[ "$RANK" = 0 ] || file={out}/metrics.$RANK.jsonl
case " {left} " in *" $RANK "*) others="{right}" ;; *) others="{left}" ;; esac
( until [ "$(wc -l 2>/dev/null <$file)" -ge 4 ] 2>/dev/null; do sleep 0.02; done
  for r in $others; do ip route add {how} 10.77.0.$((r + 1))/32; done
  for r in $others; do ss -K dst 10.77.0.$((r + 1)); done
  {heal}
) >/dev/null 2>&1 &
{command}
code=$?
echo $code >{out}.code.$RANK
exit $code
"""
HEAL = "sleep {}; for r in $others; do ip route del {} 10.77.0.$((r + 1))/32; done"


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Watcher(threading.Thread):
    """What `latest` of a run says, over time."""

    def __init__(self, out):
        super().__init__()
        self.path = os.path.join(out, "checkpoints", "latest")
        self.seen, self.over = [], threading.Event()

    def run(self):
        while not self.over.wait(0.005):
            try:
                with open(self.path, encoding="ascii") as file:
                    text = file.read().strip()
            except OSError:
                continue
            if text and (not self.seen or self.seen[-1] != text):
                self.seen.append(text)

    def steps(self):
        self.over.set()
        self.join()
        return [int(name.split("-")[1]) for name in self.seen]


@unittest.skipIf(REASON, REASON)
class Halves(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-halves-"))
        cls.data = os.path.join(cls.folder, "data")
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 320, "--test", 40)
        assert r.returncode == 0, r.stderr
        cls.jobs = {}
        averaging = [
            (sync, (0, 1), (2, 3)) for sync in ("local_sgd:every=4", "hop", "ripples:smart")
        ]
        jobs = [
            ("equal", "all_reduce", (0, 1), (2, 3), {"on_loss": "reform"}),
            ("without 0", "all_reduce", (0,), (1, 2, 3), {"on_loss": "reform"}),
            ("blackhole", "all_reduce", (0, 3), (1, 2), {"on_loss": "reform", "how": "blackhole"}),
            ("healed", "all_reduce", (0, 1), (2, 3), {"on_loss": "reform", "heal_s": 1}),
            *((sync, sync, left, right, {}) for sync, left, right in averaging),
            ("hop without 0", "hop:graph=complete", (1, 2, 3), (0,), {}),
            ("local_sgd reforms", "local_sgd:every=4", (0, 1), (2, 3), {"on_loss": "reform"}),
            ("hop healed", "hop:graph=complete", (0, 1), (2, 3),
             {"on_loss": "reform", "heal_s": 1}),
        ]
        for two in (jobs[i : i + 2] for i in range(0, len(jobs), 2)):
            threads = [threading.Thread(target=cls.job, args=job[:4], kwargs=job[4]) for job in two]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    @classmethod
    def job(cls, name, sync, left, right, on_loss="stop", how="prohibit", heal_s=None):
        """Into jobs: its folder, its result, exit codes by rank, and the steps of `latest`."""
        out = os.path.join(cls.folder, name.replace(" ", "-").replace(":", "-"))
        command = (
            f"{os.path.abspath(shoal.SHOAL)} train --model mlp-small --data {cls.data} --batch 8 "
            f"--compute-ms 8 --epochs 16 --no-eval --json --peer-timeout 1 "
            f"--sync {sync} --on-loss {on_loss} --out {out}"
        )
        if not sync.startswith("local_sgd"):  # whose only one is at the end
            command += " --checkpoint-every 5"
        text = JOB.format(
            out=out, command=command, how=how,
            left=" ".join(map(str, left)), right=" ".join(map(str, right)),
            heal=HEAL.format(heal_s, how) if heal_s is not None else "",
        )  # fmt: skip
        watcher = Watcher(out)
        watcher.start()
        r = shoal.run("run", "-n", 4, "--lab", "rate=500mbit", "--", "sh", "-c", text)
        codes = {}
        for rank in range(4):
            try:
                with open(f"{out}.code.{rank}", encoding="ascii") as file:
                    codes[rank] = int(file.read())
            except OSError:
                codes[rank] = None  # ended by the launcher
        cls.jobs[name] = out, r, codes, watcher.steps()

    def check(self, name, going_on, ended, codes=(6, None)):
        out, r, by_rank, steps = self.jobs[name]
        self.assertEqual(0, r.returncode, r.stderr)
        results = [json.loads(line) for line in r.stdout.splitlines() if line.startswith("{")]
        self.assertEqual(1, len(results), r.stdout)
        self.assertEqual(len(going_on), results[0]["workers"], r.stderr)
        self.assertEqual(list(ended), sorted(loss["rank"] for loss in results[0]["lost"]))
        for rank in going_on:
            self.assertEqual(0, by_rank[rank], r.stderr)
        for rank in ended:
            self.assertIn(by_rank[rank], codes, r.stderr)
        self.assertEqual(sorted(steps), steps, "latest went back")

    def test_a_reform_is_of_one_half(self):
        self.check("equal", (0, 1), (2, 3))
        self.check("without 0", (1, 2, 3), (0,))
        self.check("blackhole", (0, 3), (1, 2))
        self.check("local_sgd reforms", (0, 1), (2, 3))
        for name, ended in (("equal", (2, 3)), ("without 0", (0,)), ("blackhole", (1, 2))):
            out = self.jobs[name][0]
            for rank in ended:  # not a step in another epoch of members
                path = os.path.join(out, f"metrics.{rank}.jsonl" if rank else "metrics.jsonl")
                self.assertFalse([x for x in lines(path) if "reform" in x], (name, rank))
            self.assertIn("reaches only a minority", self.jobs[name][1].stderr)

    def test_protocols_that_average_go_on_in_one_half(self):
        for name in ("local_sgd:every=4", "hop", "ripples:smart"):
            with self.subTest(sync=name):
                self.check(name, (0, 1), (2, 3), codes=(6,))
                self.assertIn("reaches only 2 of the 4 members", self.jobs[name][1].stderr)
        self.check("hop without 0", (1, 2, 3), (0,), codes=(6,))

    def test_who_was_cut_off_comes_back(self):
        """The network heals while the other half goes on: all four end together."""
        for name in ("healed", "hop healed"):
            _, r, codes, steps = self.jobs[name]
            self.assertEqual(0, r.returncode, r.stderr)
            self.assertEqual({0: 0, 1: 0, 2: 0, 3: 0}, codes, r.stderr)
            results = [json.loads(line) for line in r.stdout.splitlines() if line.startswith("{")]
            self.assertEqual([4], [result["workers"] for result in results], r.stderr)
            self.assertEqual(sorted(steps), steps, "latest went back")


if __name__ == "__main__":
    shoal.main()
