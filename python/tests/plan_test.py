#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Planners give in Python what the command gives, and published figures."""

import json
import os
import subprocess
import tempfile
import unittest

import shoal

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
LAB = os.path.join(EXAMPLES, "clusters", "lab-4.json")
NETWORK = os.path.join(EXAMPLES, "network")


def command(*arguments):
    done = subprocess.run(
        [os.environ["SHOAL"], *arguments, "--json"], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


class PlanTest(unittest.TestCase):
    def test_partition(self):
        plan = shoal.partition("vgg-a", levels=4, batch=256)
        said = command("partition", "--model", "vgg-a", "--levels", "4", "--batch", "256")
        self.assertEqual(said["elements"], plan.elements)
        self.assertEqual(4, len(plan.level_elements))
        # HyPar: convolutions by data, the large dense layers by model at the outer levels
        self.assertEqual("data", plan.layers[0].parallelism[0])
        self.assertIn("model", {p for layer in plan.layers for p in layer.parallelism})
        data = shoal.partition("vgg-a", levels=4, batch=256, method="data")
        self.assertLess(plan.elements, data.elements)
        with self.assertRaisesRegex(ValueError, "optimum"):
            shoal.partition("vgg-a", levels=1, method="best")
        with tempfile.TemporaryDirectory() as folder:
            shoal.partition("lenet", levels=1, save=f"{folder}/plan.json")
            self.assertTrue(os.path.getsize(f"{folder}/plan.json"))

    def test_predict(self):
        asked = {"cluster": LAB, "workers": 4, "batch": 32}
        p = shoal.predict("lenet", **asked)
        said = command("predict", "--model", "lenet", "--cluster", LAB, "-w", "4", "--batch", "32")
        self.assertAlmostEqual(1, said["iteration_s"] / p.iteration_s, delta=1e-6)
        self.assertAlmostEqual(p.iteration_s, sum(p.parts.values()), delta=1e-9)
        self.assertTrue(p.bottleneck)
        self.assertLess(shoal.predict("lenet", codec="fp16", **asked).sent_bytes, p.sent_bytes)
        self.assertGreaterEqual(shoal.sensitivity("lenet", **asked).faster_link, 1)
        best = shoal.search("lenet", cluster=LAB, keep=3, batch=32)
        self.assertTrue(1 <= len(best) <= 3)
        self.assertGreaterEqual(best[0].prediction.samples_per_s, 0.999999 * p.samples_per_s)
        with self.assertRaisesRegex(ValueError, "recompute"):
            shoal.predict("lenet", cluster=LAB, recompute="some")
        with self.assertRaises(shoal.IOFailed):
            shoal.predict("lenet", cluster="/no/such/file.json")
        with self.assertRaisesRegex(TypeError, "no field"):
            shoal.predict("lenet", cluster="x", wokers=4)

    def test_network(self):
        """LIBRA's example: the optimum that tests/cli/network_test.py has, too."""
        answer = shoal.network(
            os.path.join(NETWORK, "4d.yml"),
            os.path.join(NETWORK, "gpt3.txt"),
            ["sum == 500"],
            communicator=os.path.join(NETWORK, "gpt3-4d.yml"),
            cost=os.path.join(NETWORK, "4d-cost.yml"),
        )
        self.assertAlmostEqual(722411780.9, answer.time_ns, delta=0.06)
        self.assertAlmostEqual(775045208.4, answer.equal_time_ns, delta=0.06)
        self.assertAlmostEqual(500, sum(answer.bandwidth), delta=1e-6)
        self.assertLess(answer.gap, 1e-12)
        with self.assertRaises(shoal.InvalidArgument):
            shoal.network("ring:4", os.path.join(NETWORK, "gpt3.txt"), ["sum =="])
        with self.assertRaisesRegex(ValueError, "perf-per-cost"):
            shoal.network("ring:4", "x", objective="best")


if __name__ == "__main__":
    unittest.main()
