#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/claims/soak_checks.py: each check fails where something is planted that it is there for."""

import copy
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "bench", "claims"))
import soak_checks as checks  # noqa: E402
import soak_rank  # noqa: E402

WORKERS, BATCH = 2, 8


def calm(steps=10):
    """Two workers' files: every step, and every second step's hash."""
    files = {"metrics.jsonl": [], "metrics.1.jsonl": []}
    for rank, lines in enumerate(files.values()):
        for step in range(1, steps + 1):
            first = (step - 1) * WORKERS * BATCH
            line = {"step": step, "at_us": 1000 * step + rank, "samples": BATCH}
            line.update(first=first + rank * BATCH, step_first=first, step_samples=WORKERS * BATCH)
            lines.append(line)
            if step % 2 == 0:
                lines.append({"replica": step, "hash": f"{step:016x}"})
    return files


def alone(files, name, step):
    """That worker finished this step alone and was lost; the other made it again, with less, and
    the rest alone."""
    other = next(n for n in files if n != name)
    files[name] = [l for l in files[name] if l.get("step", l.get("replica")) <= step]
    for line in files[other]:
        if line.get("step", 0) >= step:
            at = (step - 1) * WORKERS * BATCH + (line["step"] - step) * BATCH
            line.update(first=at, step_first=at, step_samples=BATCH, at_us=line["at_us"] + 500)
        if line.get("replica", 0) >= step:
            line["hash"] = "f" * 16
    return files


class Samples(unittest.TestCase):
    WANTED = 10 * WORKERS * BATCH

    def bad(self, files, wanted=WANTED, victims=()):
        return checks.samples(files, wanted, set(victims))["violations"]

    def test_a_calm_run(self):
        found = checks.samples(calm(), self.WANTED, set())
        self.assertEqual([], found["violations"])
        self.assertEqual((10, 10), (found["steps"], found["whole_steps"]))

    def test_samples_that_are_missing_at_the_end(self):
        self.assertIn("sample 160 of 176", self.bad(calm(), self.WANTED + 16)[0])

    def test_a_step_that_begins_too_late_or_too_early(self):
        for by in (-1, 1):
            files = calm()
            for lines in files.values():
                for line in lines:
                    if line.get("step", 0) >= 5:
                        line["step_first"] += by
                        line["first"] += by
            self.assertIn("step 5 is of samples", self.bad(files)[0])

    def test_a_step_that_nobody_made(self):
        files = calm()
        for name in files:
            files[name] = [line for line in files[name] if line.get("step") != 5]
        self.assertIn("step 5", self.bad(files)[0])

    def test_a_sample_that_two_workers_took(self):
        files = calm()
        files["metrics.1.jsonl"][6]["first"] -= 1
        self.assertIn("has shares", self.bad(files)[0])

    def test_a_step_made_in_vain_by_the_lost(self):
        files, wanted = alone(calm(), "metrics.1.jsonl", 7), 6 * WORKERS * BATCH + 4 * BATCH
        self.assertEqual([], self.bad(files, wanted, ["metrics.1.jsonl"]))
        self.assertIn("nobody hurt", self.bad(files, wanted)[0])

    def test_an_empty_run(self):
        self.assertTrue(self.bad({}))


class Replicas(unittest.TestCase):
    def test_equal_ones_are_counted(self):
        self.assertEqual({"compared": 5, "violations": []}, checks.replicas(calm(), 5))

    def test_one_that_differs(self):
        files = calm()
        files["metrics.1.jsonl"][-1]["hash"] = "0" * 16
        self.assertIn("differ after step 10", checks.replicas(files, 1)["violations"][0])

    def test_nothing_to_compare_is_no_success(self):
        files = calm()
        files["metrics.1.jsonl"] = []
        self.assertIn("after 0 steps only", checks.replicas(files, 1)["violations"][0])

    def test_a_step_in_vain_is_not_compared(self):
        files = alone(calm(), "metrics.1.jsonl", 6)
        self.assertEqual({"compared": 2, "violations": []}, checks.replicas(files, 1))


# Opens, allocates or starts what it is told with every line that it reads, and keeps it.
LEAKER = """
import socket, sys, threading
kept = []
print("ready", flush=True)
for line in sys.stdin:
    what, count = line.split()
    for _ in range(int(count)):
        if what == "socket":
            kept.append(socket.socket())
        elif what == "file":
            kept.append(open("/dev/null"))
        elif what == "memory":
            kept.append(bytes(range(256)) * 4096)
        elif what == "thread":
            threading.Thread(target=threading.Event().wait, daemon=True).start()
    print("ready", flush=True)
"""


class Leaks(unittest.TestCase):
    def setUp(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", LEAKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.process.stdout.readline()
        self.first = soak_rank.look_at(self.process.pid)

    def tearDown(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def after(self, what, count):
        self.process.stdin.write(f"{what} {count}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()
        return soak_rank.look_at(self.process.pid)

    def test_nothing_planted(self):
        now = self.after("nothing", 1)
        self.assertEqual([], checks.descriptors(self.first, now))
        self.assertEqual([], checks.memory(self.first, now, 1))

    def test_a_file(self):
        self.assertIn("/dev/null", checks.descriptors(self.first, self.after("file", 1))[0])

    def test_sockets_beyond_those_of_a_full_mesh(self):
        now = self.after("socket", checks.SPARE_SOCKETS)
        self.assertEqual([], checks.descriptors(self.first, now))
        self.assertIn("socket", checks.descriptors(self.first, self.after("socket", 1))[0])

    def test_a_thread(self):
        self.assertIn("threads", checks.descriptors(self.first, self.after("thread", 1))[0])

    def test_memory(self):
        mib = checks.GROWTH_KIB // 1024 + 2
        now = self.after("memory", mib)
        self.assertIn("KiB resident", checks.memory(self.first, now, 1)[0])
        self.assertEqual([], checks.memory(self.first, now, 40))

    def test_who_has_ended_has_nothing(self):
        self.process.kill()
        self.process.wait()
        self.assertEqual({}, soak_rank.look_at(self.process.pid))


class Behind(unittest.TestCase):
    def test_a_process(self):
        mark = f"SHOAL_SOAK_TEST=mark-{os.getpid()}"
        self.assertEqual(set(), checks.processes(mark))
        name, value = mark.split("=")
        with subprocess.Popen(
            [sys.executable, "-c", "print(flush=True); input()"],
            env={**os.environ, name: value},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            process.stdout.readline()
            self.assertEqual({process.pid}, checks.processes(mark))
            process.communicate(b"\n")
        self.assertEqual(set(), checks.processes(mark))

    def test_a_namespace(self):
        with subprocess.Popen(
            ["unshare", "-Urn", sys.executable, "-c", "print(flush=True); input()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            if not process.stdout.readline():
                self.skipTest("user namespaces are not allowed here")
            made = checks.namespaces([process.pid])
            self.assertEqual({"net", "user"}, {name.split(":")[0] for name in made})
            began = checks.started(process.pid)
            self.assertEqual(made, checks.namespaces_left(made, began + 1))
            # Who began later is in one that got the number of ours.
            self.assertEqual(set(), checks.namespaces_left(made, began - 1))
            process.communicate(b"\n")
        self.assertEqual(set(), checks.namespaces_left(made, began + 1))

    def test_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            before = checks.litter([folder])
            with open(os.path.join(folder, "left"), "w", encoding="ascii"):
                pass
            self.assertEqual({os.path.join(folder, "left")}, checks.litter([folder]) - before)


class Reading(unittest.TestCase):
    def test_half_a_line_is_read_when_it_is_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            metrics = checks.Metrics(folder)
            with open(os.path.join(folder, "metrics.2.jsonl"), "w", encoding="ascii") as file:
                file.write('{"a": 1}\n{"b"')
                file.flush()
                self.assertEqual({"metrics.2.jsonl": [{"a": 1}]}, copy.deepcopy(metrics.read()))
                file.write(": 2}\n")
                file.flush()
                self.assertEqual([{"a": 1}, {"b": 2}], metrics.read()["metrics.2.jsonl"])


if __name__ == "__main__":
    unittest.main()
