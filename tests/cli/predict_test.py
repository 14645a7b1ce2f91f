# SPDX-License-Identifier: Apache-2.0
"""shoal predict: tables, JSON that adds up, searches, and errors that say what to do."""

import json
import os
import tempfile
import unittest
import xml.dom.minidom

import shoal

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAB = os.path.join(ROOT, "examples", "clusters", "lab-4.json")
A100 = os.path.join(ROOT, "examples", "clusters", "a100-80g.json")
PARTS = (
    "forward backward recompute tensor tensor_again experts context offload pipeline bubble "
    "exposed straggler update other"
)


def predict(*args, env=None):
    got = shoal.run("predict", *args, env=env)
    return got.returncode, got.stdout, got.stderr


ACCELERATOR = {"name": "a", "flops": 312e12, "memory_rate": "2TB/s"}
HOSTS = {"count": 16, "workers": 8, "nic": "200gbit"}
SHAPE = "fc:8@300GB/s, switch:16@3.125GB/s"


class Predict(unittest.TestCase):
    def exchange_ms(self, cluster, collective):
        """An all-reduce of VGG-A's gradients on its own, predicted and simulated."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c.json")
            with open(path, "w", encoding="ascii") as file:
                json.dump({"name": "c", "accelerators": [ACCELERATOR], **cluster}, file)
            words = ["--model", "vgg-a", "--cluster", path, "--collective", collective, "--json"]
            code, out, error = predict(*words, "--no-overlap")
            self.assertEqual(0, code, error)
            words += ["--compute", "fixed:ms=0", "--bucket", "1G", "--iterations", 2, "--no-mixing"]
            simulated = shoal.run("sim", *words)
            self.assertEqual(0, simulated.returncode, simulated.stderr)
        simulated = json.loads(simulated.stdout)["iteration_s"]
        return 1e3 * json.loads(out)["exposed_s"], 1e3 * simulated

    def test_one_cluster_one_answer(self):
        ways = (
            {"hosts": [{**HOSTS, "inside": "nvlink3"}]},
            {"hosts": [HOSTS], "dimensions": SHAPE},
            {"hosts": [{"count": 16, "workers": 8}], "dimensions": SHAPE},
            {"dimensions": SHAPE},
        )
        # 2 (7/8) S inside at 300 GB/s, 2 (15/16) S / 8 outside at 25/8 GB/s; a flat ring leaves
        # each host once, and finds a whole NIC there, or one worker's where each has its own
        size = 4 * 132863336
        own = 2 * 127 / 128 * size / 3.125e6
        shared = own / 8
        for cluster in ways:
            for collective, want in (
                ("hierarchical", 2 * 15 / 16 * size / 8 / 3.125e6),
                ("ring", shared if "hosts" in cluster else own),
            ):
                with self.subTest(cluster=cluster, collective=collective):
                    for ms in self.exchange_ms(cluster, collective):
                        self.assertAlmostEqual(1, ms / want, delta=0.03)

    def test_a_cluster_that_contradicts_itself_is_refused(self):
        with self.assertRaisesRegex(AssertionError, "hosts.0. has a nic of 25 GB/s for 8 workers"):
            self.exchange_ms({"hosts": [HOSTS], "dimensions": "fc:8, switch:16@25GB/s"}, "ring")

    def test_parts_add_up(self):
        code, out, _ = predict("--model", "lenet", "--cluster", LAB, "--json", "--sensitivity")
        self.assertEqual(code, 0)
        p = json.loads(out)
        parts = sum(p[name + "_s"] for name in PARTS.split())
        self.assertAlmostEqual(parts, p["iteration_s"], delta=1e-9)
        self.assertAlmostEqual(sum(p["causes"].values()), p["iteration_s"], delta=1e-9)
        self.assertLessEqual(p["low_s"], p["iteration_s"])
        self.assertGreaterEqual(p["high_s"], p["iteration_s"])
        self.assertGreater(p["sensitivity"]["faster_link"], 1)
        self.assertEqual(p["workers"], 4)

    def test_table(self):
        code, out, _ = predict(
            "--model",
            "megatron-22b",
            "--cluster",
            A100,
            "--workers",
            8,
            "--tensor",
            8,
            "--batch",
            4,
            "--recompute",
            "full",
        )
        self.assertEqual(code, 0)
        for word in ("recomputation", "tensor exchange", "bottleneck:", "memory"):
            self.assertIn(word, out)

    def test_plan(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = os.path.join(folder, "plan.json")
            shoal.run("partition", "--model", "sfc", "--workers", 4, "--batch", 64, "--out", plan)
            code, out, _ = predict("--plan", plan, "--cluster", LAB, "--json", "--sensitivity")
            self.assertEqual(code, 0)
            p = json.loads(out)
            parts = sum(p[name + "_s"] for name in PARTS.split())
            self.assertAlmostEqual(parts, p["iteration_s"], delta=1e-9)
            self.assertGreater(p["speedup"], 4)
            self.assertIsNone(p["sensitivity"]["one_more"])
            data = json.loads(
                predict("--model", "sfc", "--batch", 16, "--cluster", LAB, "--json")[1]
            )
            self.assertAlmostEqual(p["by_data_s"], data["iteration_s"], delta=1e-9)
            code, out, _ = predict("--plan", plan, "--cluster", LAB)
            self.assertIn("times faster", out)
            for args, text in (
                (("--codec", "fp16"), "leave"),
                (("--search",), "nothing to search"),
                (("--workers", 4), "leave"),
            ):
                code, _, error = predict("--plan", plan, "--cluster", LAB, *args)
                self.assertEqual(code, 2)
                self.assertIn(text, error)
            shoal.run("partition", "--model", "resnet-50", "--workers", 4, "--out", plan)
            code, _, error = predict("--plan", plan, "--cluster", LAB)
            self.assertEqual(code, 2)
            self.assertIn("cannot be trained", error)

    def test_search(self):
        code, out, _ = predict(
            "--model",
            "lenet",
            "--cluster",
            LAB,
            "--search",
            "--keep",
            3,
            "--codec",
            "identity",
            "--json",
        )
        self.assertEqual(code, 0)
        got = json.loads(out)
        rates = [c["samples_per_s"] for c in got["candidates"]]
        self.assertEqual(rates[:3], sorted(rates[:3], reverse=True))
        self.assertTrue(all(c["codec"] == "identity" for c in got["candidates"]))
        self.assertGreater(got["tried"], 10)

    def test_a_search_draws_its_front(self):
        words = ["--model", "megatron-22b", "--cluster", A100, "--workers", 16, "--batch", 8]
        with tempfile.TemporaryDirectory() as folder:
            picture = os.path.join(folder, "front.svg")
            code, out, _ = predict(*words, "--search", "--json", "--svg", picture)
            self.assertEqual(code, 0)
            front = json.loads(out)["front"]
            with open(picture, encoding="utf-8") as file:
                text = file.read()
            self.assertEqual(text.count("<use"), len(front) + text.count(" GB</text>"))
            self.assertEqual(3, text.count(" GB</text>"))  # in the legend
            xml.dom.minidom.parseString(text)
            code, _, err = predict(*words, "--search", "--svg", folder)
            self.assertEqual(code, 1, err)
            code, _, err = predict(*words, "--search", "--svg", picture, env={"PATH": folder})
            self.assertEqual(code, 1, err)
            self.assertIn("gnuplot is not installed", err)
        code, _, err = predict(*words, "--svg", picture)
        self.assertEqual(code, 2)
        self.assertIn("say nothing without --search", err)

    def test_protocols_say_when_they_lose(self):
        """Two models of lenet's 431,080 parameters through 24 Mbit/s, beside all_reduce's own."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c.json")
            with open(path, "w", encoding="ascii") as file:
                hosts = [{"count": 8, "nic": "24mbit"}]
                json.dump({"name": "c", "accelerators": [ACCELERATOR], "hosts": hosts}, file)
            words = ["--model", "lenet", "--cluster", path]
            summed = json.loads(predict(*words, "--json")[1])
            self.assertNotIn("all_reduce_s", summed)
            got = json.loads(predict(*words, "--json", "--sync", "hop")[1])
            self.assertAlmostEqual(got["models_s"], 2 * 4 * 431080 / 3e6, places=3)
            self.assertEqual(got["all_reduce_s"], summed["iteration_s"])
            code, out, err = predict(*words, "--sync", "hop")
            self.assertEqual(code, 0, err)
            self.assertRegex(out, r"models to neighbours: 1149\.\d+ ms .*they do NOT hide")
            times = got["iteration_s"] / got["all_reduce_s"]
            self.assertIn(f"{times:.3f} times as fast as hop: take it", out)

    def test_a_search_says_what_it_left_out(self):
        lossless = {"identity", "expo", "zstd"}
        words = ["--model", "lenet", "--cluster", LAB, "--search"]
        code, out, _ = predict(*words, "--json", "--keep", 5)
        self.assertEqual(code, 0)
        got = json.loads(out)
        self.assertLessEqual({c["codec"] for c in got["candidates"]}, lossless)
        self.assertEqual({c["sync"] for c in got["candidates"]}, {"all_reduce"})
        self.assertGreater(got["bounded"], 0)
        self.assertGreater(sum(c["ties"] for c in got["candidates"]), 0)
        code, out, _ = predict(*words, "--keep", 5)
        self.assertRegex(out, r"^\d+ configurations looked at, \d+ fit into memory; \d+ more are")
        self.assertRegex(out, r"and \d+ more that take")
        got = json.loads(predict(*words, "--json", "--allow", "lossy,async")[1])
        self.assertNotEqual({c["sync"] for c in got["candidates"]}, {"all_reduce"})
        self.assertFalse({c["codec"] for c in got["candidates"]} <= lossless)
        for args, text in (
            ((*words, "--allow", "lossy,fast"), "wanted lossy, async"),
            ((*words[:4], "--allow", "lossy"), "without --search"),
        ):
            code, _, error = predict(*args)
            self.assertEqual(code, 2)
            self.assertIn(text, error)

    def test_a_run_takes_and_costs_its_steps(self):
        with open(LAB, encoding="utf-8") as file:
            cluster = json.load(file)
        words = ("--model", "lenet", "--steps", 3600000)
        self.assertNotIn("costs", predict(*words, "--cluster", LAB)[1])
        cluster["accelerators"][0].update(price=0.5, watts=200)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "priced.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(cluster, file)
            got = json.loads(predict(*words, "--cluster", path, "--json")[1])
            found = predict(*words, "--cluster", path, "--search", "--json")[1]
            text = predict(*words, "--cluster", path)[1]
        run, step_s = got["run"], got["iteration_s"]
        self.assertEqual(run["steps"], 3600000)
        for key, want in (("seconds", 3.6e6 * step_s), ("low_s", 3.6e6 * got["low_s"]),
                          ("cost", 4 * 0.5 * 1000 * step_s),
                          ("joules", 4 * 200 * 3.6e6 * step_s)):  # fmt: skip
            self.assertAlmostEqual(run[key] / want, 1, 9, key)
        self.assertIn(f"a run of 3600000 steps: {1000 * step_s:.4g} h", text)
        self.assertIn(f"costs {run['cost']:.4g}, takes {run['joules'] / 3.6e6:.4g} kWh", text)
        for one in json.loads(found)["candidates"]:
            self.assertAlmostEqual(one["run"]["cost"] / (3.6e6 * one["cost"]), 1, 9)
        self.assertEqual(predict("--model", "lenet", "--cluster", LAB, "--steps", 0)[0], 2)

    def test_errors(self):
        omni = ("--model", "lenet", "--cluster", LAB, "--collective")
        for args, code, part in (
            ((), 2, "--model"),
            (("--model", "lenet", "--cluster", LAB, "--workers", "x"), 2, "--workers"),
            (("--model", "lenet", "--cluster", "/none.json"), 1, "/none.json"),
            (("--model", "nothing", "--cluster", LAB), 2, "nothing"),
            (("--model", "lenet", "--cluster", LAB, "--workers", 9), 2, "has 4"),
            ((*omni, "omnireduce"), 2, "has no schedule that could be computed with"),
            ((*omni, "switchml"), 2, "direct, worker_aggregator, hierarchical, gather.\n"),
        ):
            got = predict(*args)
            self.assertEqual(got[0], code, got)
            self.assertIn(part, got[2])
        self.assertIn("Example", shoal.run("predict", "--help").stdout)


if __name__ == "__main__":
    shoal.main()
