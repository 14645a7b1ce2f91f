# SPDX-License-Identifier: Apache-2.0
"""What breaks in a network of cables: one of two between two hosts, or a host that others are
reached by. With --on-loss reform the run goes on where hosts still reach each other, and computes
what an undisturbed run does; with stop the error names the link or the rank."""

import json
import os
import re
import tempfile
import threading
import unittest

import shoal

REASON = shoal.lab_works()
EPOCHS = 25  # long enough for `shoal status` to be asked after a link broke
LINES_BEFORE = 4  # of a metrics file: a step each, or less

# The rank that is to do harm waits for so many steps, by the lines of its metrics file.
JOB = """
export SHOAL_STATUS_DIR={out}.status
if [ "$RANK" = {who} ]; then
  ( until [ "$(wc -l 2>/dev/null < {out}/metrics{file}.jsonl)" -ge {lines} ] 2>/dev/null
    do sleep 0.02; done; {harm} ) &
fi
exec {command}
"""


def losses(out):
    """{epoch: loss on the test set}; an epoch's training loss is that of its last members alone.
    Its last step may have been made twice."""
    with open(os.path.join(out, "metrics.jsonl"), encoding="ascii") as file:
        lines = [json.loads(line) for line in file]
    return {x["epoch"]: x["test_loss"] for x in lines if "test_loss" in x}


def hashes(out):
    """The hashes of all weights, {step: those of all ranks}."""
    found = {}
    for name in os.listdir(out):
        if name.endswith(".jsonl"):
            with open(os.path.join(out, name), encoding="ascii") as file:
                rows = [json.loads(line) for line in file]
            for row in rows:
                if "replica" in row:
                    found.setdefault(row["replica"], set()).add(row["hash"])
    return found


@unittest.skipIf(REASON, REASON)
class Links(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.data = os.path.join(cls.folder.name, "data")
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 160, "--test", 40)
        assert r.returncode == 0, r.stderr
        cls.jobs = {}
        limit = '$([ "$RANK" = 2 ] && echo timeout -s KILL 20) '  # it would look for them for 60 s
        noted = (
            f"n=0; until {os.path.abspath(shoal.SHOAL)} status > {cls.folder.name}/status 2>&1; "
            f"grep -q 'epoch 0.*10.78.1.. broke' {cls.folder.name}/status; do sleep 0.05; "
            f"n=$((n + 1)); [ $n -lt 400 ] || {{ cat {cls.folder.name}/status; exit; }}; done; "
            "echo shoal status says so"
        )
        cls.together(
            ("calm", 2, "line:2", "reform", 9, "true"),
            ("first", 2, "line:2", "reform", 0, "ip link set cable0 down"),
            ("second", 2, "line:2", "reform", 0, f"ip link set cable1 down; {noted}"),
            ("stop", 2, "line:2", "stop", 0, "ip link set cable1 down"),
            ("ring", 4, "ring", "reform", 1, "kill -9 $$"),
            ("line", 3, "line", "reform", 1, "kill -9 $$", limit),
        )

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def together(cls, *jobs):
        """Most of a job is waiting for a timeout."""
        threads = [threading.Thread(target=cls.job, args=job) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @classmethod
    def job(cls, name, ranks, cables, on_loss, who, harm, limit=""):
        """Into jobs: its folder, and its result. limit: before each rank's command."""
        out = os.path.join(cls.folder.name, name)
        epochs = 300 if on_loss == "stop" else EPOCHS
        command = (
            f"{os.path.abspath(shoal.SHOAL)} train --model mlp-small --data {cls.data} --batch 8 "
            f"--compute-ms 5 --check-every 5 --epochs {epochs} --on-loss {on_loss} --out {out}"
        )
        file = f".{who}" if who != 0 else ""
        text = JOB.format(
            who=who, out=out, file=file, lines=LINES_BEFORE, harm=harm, command=limit + command
        )
        lab = f"rate=500mbit,cables={cables}"
        r = shoal.run(
            "run", "-n", ranks, "--tag-output", "--on-loss", on_loss, "--lab", lab,
            "--", "sh", "-c", text,
        )  # fmt: skip
        cls.jobs[name] = out, r

    def test_one_of_two_cables(self):
        calm, first, second, stop = (self.jobs[x] for x in ("calm", "first", "second", "stop"))
        self.assertEqual(calm[1].returncode, 0, calm[1].stderr)
        want = losses(calm[0])
        replicas = hashes(calm[0])
        self.assertEqual(len(want), EPOCHS)
        self.assertGreater(len(replicas), 5)
        self.assertTrue(all(len(h) == 1 for h in replicas.values()), replicas)
        for (out, r), gone in ((first, 0), (second, 1)):
            said = r.stdout + r.stderr
            self.assertEqual(r.returncode, 0, said)
            self.assertIn("of 2 goes on in epoch 1", said)
            self.assertRegex(said, rf"10\.78\.{gone}\.\d - 10\.78\.{gone}\.\d (is silent|broke)")
            self.assertEqual(losses(out), want)
            self.assertEqual(hashes(out), replicas)
        self.assertIn("shoal status says so", second[1].stdout)
        said = stop[1].stdout + stop[1].stderr
        self.assertEqual(stop[1].returncode, 5, said)
        self.assertRegex(
            said,
            r"link 10\.78\.1\.\d - 10\.78\.1\.\d broke \(.*\), "
            r"10\.78\.0\.\d - 10\.78\.0\.\d answers",
        )

    def test_a_host_that_others_are_reached_by(self):
        ring, line = self.jobs["ring"], self.jobs["line"]
        said = ring[1].stdout + ring[1].stderr
        self.assertEqual(ring[1].returncode, 0, said)
        self.assertEqual(len(re.findall(r"rank \d of 3 goes on in epoch 1", said)), 3, said)
        self.assertEqual(len(losses(ring[0])), EPOCHS)
        self.assertTrue(all(len(h) == 1 for h in hashes(ring[0]).values()))
        said = line[1].stdout + line[1].stderr
        self.assertIn("rank 0 of 1 goes on in epoch 1", said)
        self.assertEqual(said.count("goes on in epoch"), 1, said)
        self.assertIn("rank 2 reaches only a minority of the 3 members", said)
        self.assertIn("by way of rank 1, which is lost", said)


if __name__ == "__main__":
    shoal.main()
