#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shoal sim: what it tells, that it repeats, its files, bad input."""
import json
import math
import os
import tempfile
import unittest
import xml.etree.ElementTree

import shoal

SMALL = (
    "--workers", 8, "--params", 100000, "--network", "links:rate=100mbit,hosts=4",
    "--compute", "fixed:ms=50,jitter=0.05,slow=2:4x", "--iterations", 20,
)  # fmt: skip


class Sim(unittest.TestCase):
    def sim(self, *args, code=0):
        r = shoal.run("sim", *args)
        self.assertEqual(r.returncode, code, r.stderr)
        return r

    def json(self, *args):
        return json.loads(self.sim(*args, "--json").stdout)

    def test_waits_for_the_slow_worker(self):
        found = self.json(*SMALL)
        self.assertEqual(found["iterations"], 160)
        self.assertEqual(found["spectral_gap"], 1)
        self.assertEqual(found["error"], "")
        for worker in found["per_worker"]:
            if worker["worker"] != 2:
                self.assertAlmostEqual(worker["waited_for"]["2"], 3.0, delta=0.2)
        told = self.sim(*SMALL).stdout
        self.assertIn("worker iterations", told)
        rows = [line.split() for line in told.splitlines()]
        at = rows.index(next(row for row in rows if row[:1] == ["worker"]))
        for key, name in (("sent_bytes", "sent_MB"), ("received_bytes", "received_MB")):
            self.assertEqual(rows[at + 1][rows[at].index(name)],
                             f"{found['per_worker'][0][key] / 1e6:.3f}")

    def test_the_same_seed_gives_the_same_run(self):
        with tempfile.TemporaryDirectory() as folder:
            logs = []
            for name, seed in (("a", 5), ("b", 5), ("c", 6)):
                path = os.path.join(folder, name)
                self.sim(*SMALL, "--sync", "hop:backup=1", "--seed", seed, "--log", path)
                with open(path, "rb") as file:
                    logs.append(file.read())
            self.assertEqual(logs[0], logs[1])
            self.assertNotEqual(logs[0], logs[2])

    def test_auto_says_what_and_why(self):
        auto = ("--workers", 8, "--params", 100000, "--iterations", 64, "--sync", "auto",
                "--network", "links:rate=1mbit,down=5mbit", "--compute", "fixed:ms=100")
        found = self.json(*auto)
        self.assertRegex(found["chosen"], r"^diloco:every=\d+,.*--codec eden:bits=4: 0\.1 M param")
        self.assertIn("1/5 Mbit/s up/down", found["chosen"])
        self.assertEqual(self.sim(*auto).stdout.splitlines()[0], found["chosen"])
        self.assertLess(found["duration_s"], 16)
        self.assertNotIn("chosen", self.json(*SMALL))
        r = shoal.run("train", "--model", "mlp-small", "--data", "/nowhere", "--sync", "auto")
        self.assertEqual(r.returncode, 2, r.stderr)
        self.assertIn("shoal sim --sync auto", r.stderr)

    def test_auto_against_all_others(self):
        """Virtual time until the loss is a fiftieth of the first, beside the best of the seven of
        docs/protocols.md. (Short rounds with outer momentum are not among them: on a quadratic that
        is a larger learning rate.)"""
        others = (("all_reduce",), ("all_reduce", "--codec", "eden:bits=4"), ("hop",),
                  ("diloco:every=64,delay=16", "--codec", "eden:bits=4"),
                  ("diloco:every=16,delay=4", "--codec", "eden:bits=4"),
                  ("local_sgd:every=8",), ("ripples:smart,laggards",), ("hop:backup=1,skip=10",))
        cells = (("4mbit", "", "hop", 1.02), ("400mbit", "", "all_reduce", 1.05),
                 ("4mbit", ",slow=3:5x", "hop:backup=1,skip=10", 1.02),
                 ("4mbit", ",random=6x:0.0625", "hop:backup=1,skip=10", 1.02),
                 ("400kbit", ",slow=3:5x", "diloco", 1.25))
        for rate, slow, wanted, most in cells:
            def until(*sync, rate=rate, slow=slow):
                found = self.json(
                    "--problem", "quadratic:lr=0.003,momentum=0.9,noise=0.5,spread=0.2",
                    "--iterations", 250, "--workers", 8, "--no-mixing", "--params", 2000,
                    "--network", f"links:rate={rate}",
                    "--compute", f"fixed:ms=100,jitter=0.05{slow}", "--sync", *sync)
                curve = found["curve"]
                times = [at["time_s"] for at in curve if at["loss"] <= curve[0]["loss"] / 50]
                return (times[0] if times else math.inf), found.get("chosen", "")
            took, chosen = until("auto")
            best = min(until(*sync)[0] for sync in others)
            self.assertTrue(chosen.startswith(wanted), chosen)
            self.assertLessEqual(took, most * best, (rate, slow, chosen))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            timeline = os.path.join(folder, "t.json")
            pictures = os.path.join(folder, "new")
            problem = ("--problem", "quadratic:lr=0.8,spread=0", "--timeline", timeline)
            found = self.json(*SMALL, *problem, "--pictures", pictures)
            self.assertLess(found["curve"][-1]["loss"], found["curve"][0]["loss"] / 100)
            with open(timeline, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
            self.assertIn("compute", {event["name"] for event in events})
            self.assertEqual({"X", "b", "e"}, {event["ph"] for event in events})
            self.assertEqual(
                ["iterations.svg", "loss.svg", "waits.svg"], sorted(os.listdir(pictures))
            )
            for name in os.listdir(pictures):
                xml.etree.ElementTree.parse(os.path.join(pictures, name))

    def test_a_straggler_is_seen_in_the_pictures(self):
        """Who computes four times as long is at the low end of a band, and waits for nobody."""
        with tempfile.TemporaryDirectory() as folder:
            found = self.json("--workers", 8, "--iterations", 40, "--sync", "ad_psgd",
                              "--compute", "fixed:slow=3:4x", "--pictures", folder)
            last, done = found["curve"][-1], [w["iterations"] for w in found["per_worker"]]
            self.assertEqual((min(done), max(done)), (last["iterations_min"],
                                                      last["iterations_max"]))
            middle = found["curve"][len(found["curve"]) // 3]
            self.assertLess(3 * middle["iterations_min"], middle["iterations_max"] + 3)
            root = xml.etree.ElementTree.parse(os.path.join(folder, "iterations.svg")).getroot()
            bands = [e.attrib["points"] for e in root.iter() if "fill-opacity" in e.attrib]
            self.assertEqual(1, sum(len(points.split()) > 9 for points in bands))
            self.sim("--workers", 8, "--iterations", 40, "--compute", "fixed:slow=3:4x",
                     "--pictures", folder)
            root = xml.etree.ElementTree.parse(os.path.join(folder, "waits.svg")).getroot()
            names = [e.text for e in root.iter() if (e.text or "").startswith("worker ")]
            self.assertEqual((8, "worker 3"), (len(names), names[0]))

    def test_pictures_want_gnuplot(self):
        with tempfile.TemporaryDirectory() as folder:
            pictures = os.path.join(folder, "new")
            r = shoal.run("sim", *SMALL, "--pictures", pictures, env={"PATH": folder})
            self.assertEqual(1, r.returncode)
            self.assertIn("gnuplot is not installed", r.stderr)
            self.assertFalse(os.path.exists(pictures))

    def test_a_network_learns_in_virtual_time(self):
        with tempfile.TemporaryDirectory() as folder:
            shoal.run("data", "digits", "--out", folder, "--train", 600, "--test", 200)
            train = ("--data", folder, "--model", "mlp-small", "--batch", 25, "--lr", 0.1)
            with self.subTest("the same as without time"):
                found = self.json(*train, "--epochs", 3, "--workers", 4)
                plain = shoal.run("train", *train, "--epochs", 3, "--simulate", 4, "--json")
                want = json.loads(plain.stdout)["test_accuracy"]
                self.assertAlmostEqual(found["test_accuracy"], want, places=6)
                self.assertLess(found["train_loss"], found["curve"][1]["loss"] / 2)
                self.assertIsNone(found["curve"][0]["loss"])
            with self.subTest("workers that step apart: as four processes"):
                apart = (*train[:-1], 0.01, "--workers", 4, "--codec", "onebit:warmup=5,local=4",
                         "--optimizer", "adam:freeze=5,local=4,eps=0.1")
                found = self.json(*apart, "--iterations", 15)
                plain = shoal.run("train", *apart, "--epochs", 3, "--steps", 15, "--json")
                want = json.loads(plain.stdout)
                self.assertAlmostEqual(found["test_loss"], want["test_loss"], places=5)
                alone = {worker["test_accuracy"] for worker in found["per_worker"]}
                self.assertGreater(len(alone), 1)
            with self.subTest("what steps apart needs an optimiser that does"):
                r = self.sim("--codec", "onebit:local=4", code=2)
                self.assertIn("codec onebit:local=4", r.stderr)
            with self.subTest("replicas that differ, and pictures"):
                pictures = os.path.join(folder, "new")
                args = (*train, "--sync", "local_sgd:every=4", "--iterations", 8)
                found = self.json(*args, "--pictures", pictures)
                self.assertEqual(found["iterations"], 32)
                self.assertGreater(found["per_worker"][3]["test_accuracy"], 20)
                self.assertIn("loss.svg", os.listdir(pictures))
                self.assertIn("workers on their own", self.sim(*args).stdout)

    def test_cluster_and_model(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(
                    {
                        "name": "two",
                        "accelerators": [{"name": "a", "flops": 1e9}],
                        "hosts": [{"count": 2, "workers": 3, "nic": "1gbit"}],
                        "stragglers": [{"worker": 4, "slowdown": 2}],
                    },
                    file,
                )
            found = self.json("--cluster", path, "--model", "lenet", "--compute", "model:batch=8")
            self.assertEqual(found["workers"], 6)
            compute = [w["compute_s"] for w in found["per_worker"]]
            self.assertAlmostEqual(compute[4] / compute[0], 2, places=3)

    def test_lost_packets_cost_what_predict_says(self):
        """Rounds by one function; here timers are drawn, there they are a mean."""
        with tempfile.TemporaryDirectory() as folder:
            for collective in ("ring", "halving_doubling", "direct"):
                told = {}
                for loss in (0, 0.01):
                    path = os.path.join(folder, "cluster.json")
                    with open(path, "w", encoding="ascii") as file:
                        json.dump({
                            "name": "lossy", "accelerators": [{"name": "a", "flops": 1e12}],
                            "hosts": [{"count": 4, "nic": "100mbit", "loss": loss / 2}],
                            "profiles": [{"model": "mlp-small", "batch": 8, "compute_us": 30000,
                                          "update_us": 0}],
                        }, file)  # fmt: skip
                    same = ("--cluster", path, "--model", "mlp-small", "--collective", collective,
                            "--json")  # fmt: skip
                    r = shoal.run("predict", *same, "--batch", 8, "--no-overlap")
                    self.assertEqual(r.returncode, 0, r.stderr)
                    found = self.json("--no-mixing", "--iterations", 2000, "--compute",
                                      "fixed:ms=30", *same)  # fmt: skip
                    told[loss] = (json.loads(r.stdout)["iteration_s"], found["iteration_s"])
                for one in told[0]:
                    self.assertAlmostEqual(one, told[0][0], delta=1e-4)
                predicted, simulated = (told[0.01][i] - told[0][i] for i in (0, 1))
                self.assertGreater(predicted, 0.05 * told[0][0])
                self.assertAlmostEqual(simulated, predicted, delta=0.15 * predicted)

    def test_a_lost_worker_is_the_exit_code(self):
        r = self.sim(*SMALL, "--faults", "plan:die=3@0.3", code=5)
        self.assertIn("ended early", r.stdout)
        self.assertIn("3", r.stderr)

    def test_a_lost_worker_comes_back(self):
        faults = "plan:die=3@0.3,rejoin=3@0.6"
        for more in ("hop",), ("all_reduce", "reform"):
            found = self.json(*SMALL, "--sync", more[0], "--faults", ",".join([faults, *more[1:]]))
            last = found["per_worker"][3]
            self.assertEqual(last["end"], "done")
            self.assertEqual(found["epochs"], len(more))
            self.assertLess(last["gradients"], found["per_worker"][0]["gradients"])

    def test_a_thousand_workers(self):
        found = self.json("--workers", 1024, "--iterations", 3, "--no-mixing")
        self.assertEqual(found["iterations"], 3072)

    def test_bad_input(self):
        for args, text in (
            (["--workers", 0], "is not taken"),
            (["--sync", "hopp"], "hopp"),
            (["--sync", "auto", "--compute", "model:gflops=5"], "--sync auto chooses by rates"),
            (["--network", "links:rate=fast"], "rate=fast"),
            (["--compute", "fixed:random=6y"], "random=6y"),
            (["--faults", "plan:cut=1@5"], "cut=1@5"),
            (["--cluster", "x", "--network", "links"], "either"),
            (["more"], "unexpected"),
            (["--epochs", 2], "add --data"),
            (["--data", "x", "--params", 5], "without --problem"),
            (["--data", "x", "--epochs", 2, "--iterations", 5], "either"),
        ):
            self.assertIn(text, self.sim(*args, code=2).stderr)
        self.assertIn("/nowhere", self.sim("--data", "/nowhere", code=1).stderr)
        self.assertIn("/nowhere", self.sim("--cluster", "/nowhere", code=1).stderr)
        self.assertIn("Example", self.sim("--help").stdout)


if __name__ == "__main__":
    shoal.main()
