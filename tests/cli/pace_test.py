#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers that are slow by chance, links that differ by way or change: in simulation and on real
processes alike."""
import json
import os
import re
import tempfile
import unittest

import shoal

LAB = shoal.lab_works()
STEPS, WORKERS, SEED = 24, 4, 7
SLOW = re.compile(r"worker (\d+) is 6 times slower in iteration (\d+) by chance")

# Rank 1 sends to rank 0 a megabyte; rank 0 prints the seconds from the first byte to the last.
SENDER = """
import os, socket, sys, time
BYTES, mine = 1 << 20, int(os.environ["RANK"])
if mine == 0:
    with socket.create_server((os.environ["MASTER_ADDR"], 7007)) as server:
        conn = server.accept()[0]
    got = len(conn.recv(1))
    began = time.monotonic()
    while got < BYTES:
        got += len(conn.recv(65536))
    print(time.monotonic() - began)
else:
    conn = None
    while conn is None:
        try:
            conn = socket.create_connection((os.environ["MASTER_ADDR"], 7007), 60)
        except ConnectionRefusedError:
            os.sched_yield()
    conn.sendall(bytes(BYTES))
    conn.shutdown(socket.SHUT_WR)
    conn.recv(1)
"""


class Chance(unittest.TestCase):
    def real(self, folder, *more, env=None):
        r = shoal.run("train", "--model", "mlp-small", "--data", folder, "--workers", WORKERS,
                      "--batch", 4, "--steps", STEPS, "--seed", SEED, "--no-eval", "--quiet",
                      "--log", "debug", *more, env=env)  # fmt: skip
        self.assertEqual(r.returncode, 0, r.stderr)
        return sorted((int(w), int(i)) for w, i in SLOW.findall(r.stderr))

    def simulated(self, folder):
        path = os.path.join(folder, "t.json")
        r = shoal.run("sim", "--workers", WORKERS, "--params", 1000, "--iterations", STEPS,
                      "--seed", SEED, "--compute", "fixed:ms=10,random=6x:0.2",
                      "--timeline", path)  # fmt: skip
        self.assertEqual(r.returncode, 0, r.stderr)
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        found = []
        for worker in range(WORKERS):
            spans = [e for e in events if e["name"] == "compute" and e["tid"] == worker]
            spans.sort(key=lambda e: e["ts"])
            self.assertEqual(len(spans), STEPS)
            found += [(worker, i) for i, e in enumerate(spans) if e["dur"] > 30e3]
        return sorted(found)

    def test_the_same_steps_are_slow_in_both(self):
        with tempfile.TemporaryDirectory() as folder:
            r = shoal.run("data", "digits", "--out", folder, "--train", 400, "--test", 100)
            self.assertEqual(r.returncode, 0, r.stderr)
            want = self.simulated(folder)
            self.assertGreater(len(want), 5)
            self.assertLess(len(want), STEPS * WORKERS // 2)
            self.assertEqual(self.real(folder, env={"SHOAL_RANDOM": "6x:0.2"}), want)
            if not LAB:
                self.assertEqual(self.real(folder, "--lab", "random=6x:0.2"), want)

    def test_what_is_no_chance_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            shoal.run("data", "digits", "--out", folder, "--train", 100, "--test", 100)
            for text, why in (("fast", "random=fast: expected"), ("0.5x", "no step is faster"),
                              ("6x:2", "random=6x:2: expected")):
                r = shoal.run("train", "--model", "mlp-small", "--data", folder, "--workers", 1,
                              "--steps", 1, env={"SHOAL_RANDOM": text})  # fmt: skip
                self.assertEqual(r.returncode, 2, r.stderr)
                self.assertIn(why, r.stderr)
        for text in ("random=6", "random=6x:2", "random=0.5x"):
            r = shoal.run("run", "-n", 2, "--lab", text, "--", "true")
            self.assertEqual(r.returncode, 2, r.stderr)
            self.assertIn("FACTORx", r.stderr)


class Links(unittest.TestCase):
    def test_what_cannot_be_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rates")
            with open(path, "w", encoding="ascii") as file:
                file.write("# seconds host up down\n0.5 0 10mbit 50mbit\n0.25 0 10mbit\n")
            for lab, why in ((f"trace={path}", "line 3"), ("trace=/nowhere/at/all", "No such file"),
                             (f"trace={folder}", "Is a directory"),
                             ("up=10mbit,down=50mbit,cables=ring", "cables"),
                             ("link=1:10mbit/fast", "HOST:UP/DOWN"), ("up=fast", "a rate")):
                with self.subTest(lab=lab):
                    r = shoal.run("run", "-n", 2, "--lab", lab, "--", "true")
                    self.assertEqual(r.returncode, 2, r.stderr)
                    self.assertIn(why, r.stderr)

    @unittest.skipIf(LAB, LAB)
    def test_each_way_has_its_rate(self):
        """A megabyte at 8 Mbit/s takes a second, less tbf's burst and what queues hold."""
        for lab, least in (("up=8mbit,down=1gbit", 0.5), ("up=1gbit,down=8mbit", 0.5),
                           ("rate=1gbit,link=1:8mbit/1gbit", 0.5),
                           ("rate=1gbit,link=0:1gbit/8mbit", 0.5)):
            with self.subTest(lab=lab):
                r = shoal.run("run", "-n", 2, "--lab", lab + ",limit=64", "--", "python3", "-c",
                              SENDER)  # fmt: skip
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertGreater(float(r.stdout), least)
        shaped = shoal.run("run", "-n", 2, "--lab", "up=8mbit,down=50mbit", "--", "sh", "-c",
                           "PATH=$PATH:/usr/sbin:/sbin tc qdisc show dev eth0")  # fmt: skip
        self.assertEqual(shaped.stdout.count("rate 8Mbit"), 2, shaped.stdout)

    @unittest.skipIf(LAB, LAB)
    def test_rates_follow_a_trace(self):
        wait = ("PATH=$PATH:/usr/sbin:/sbin; [ $RANK = 1 ] || exit 0; "
                'until tc qdisc show dev eth0 | grep "rate 7Mbit"; do sleep 0.02; done')
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rates")
            with open(path, "w", encoding="ascii") as file:
                file.write("0.1 1 9mbit\n0.4 1 7mbit 50mbit\n")
            r = shoal.run("run", "-n", 2, "--lab", f"rate=100mbit,trace={path}", "--",
                          "timeout", 90, "sh", "-c", wait)  # fmt: skip
            with open(path, "w", encoding="ascii") as file:
                file.write("0.1 2 9mbit\n")
            absent = shoal.run("run", "-n", 2, "--lab", f"trace={path}", "--", "true")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(r.stdout.count("rate 7Mbit"), 1)
        self.assertNotEqual(absent.returncode, 0)
        self.assertIn("host 2, and the lab has hosts 0 to 1", absent.stderr)


if __name__ == "__main__":
    unittest.main()
