#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shoal partition and shoal model: tables, JSON, plan files, bad input."""
import json
import os
import tempfile
import unittest

import shoal


class Partition(unittest.TestCase):
    def partition(self, *args, code=0):
        r = shoal.run("partition", *args)
        self.assertEqual(r.returncode, code, r.stderr)
        return r

    def test_figure_5(self):
        r = self.partition("--model", "vgg-d", "--method", "greedy", "--mode", "figure")
        for row in ("H1  0000000000000111", "H4  0000000000001111"):
            self.assertIn(row, r.stdout)
        self.assertIn("2127849984", r.stdout)
        self.assertIn("3.210x", r.stdout)

    def test_json_and_table2(self):
        found = json.loads(
            self.partition("--model", "sfc", "--workers", 16, "--mode", "table2", "--json").stdout
        )
        self.assertEqual(found["bytes"], 773107712)
        self.assertEqual(found["compared"]["data"]["bytes"], 16886661120)
        self.assertEqual(found["compared"]["data"]["speedup"], 1)
        self.assertEqual(len(found["rows"]), 4)
        self.assertEqual(
            sum(r["pairs"] * r["pair_elements"] for r in found["rows"]), found["elements"]
        )
        self.assertTrue(found["executable"])

    def test_given_plans_and_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            r = self.partition(
                "--model", "lenet", "--levels", 2, "--given", "0011/0010", "--out", path
            )
            self.assertIn("conv1", r.stdout)
            with open(path, encoding="utf-8") as f:
                plan = json.load(f)
            self.assertEqual([p["plan"] for p in plan["layers"]], ["dd", "dd", "mm", "md"])

    def test_unequal_accelerators(self):
        accelerators = ["--accelerators", "180x2,420x2", "--rate", "40gbit"]
        found = json.loads(self.partition("--model", "vgg-a", *accelerators, "--json").stdout)
        self.assertEqual(len(found["splits"]), 3)
        self.assertLess(found["seconds"], found["two_types_halves_seconds"])
        self.assertLess(found["splits"][0]["share"], 0.5)
        self.assertRegex(found["splits"][0]["types"], "^[123]{11}$")

    def test_bad_input(self):
        for args, code, text in (
            (["--model", "lenett"], 2, "lenet"),
            (["--levels", "17"], 2, "17"),
            (["--workers", "3"], 2, "3"),
            (["--mode", "table3"], 2, "table3"),
            (["--method", "luck"], 2, "luck"),
            (["--given", "01"], 2, "level"),
            (["--method", "exhaustive"], 2, "2^44 plans"),
            (["--model", "lenet", "--out", "/no/such/plan.json"], 1, "/no/such"),
            (["vgg-a"], 2, "vgg-a"),
            (["--rate", "1gbit"], 2, "--accelerators"),
            (["--accelerators", "180x2,"], 2, "180x2,"),
            (["--accelerators", "180x2"], 2, "--rate"),
            (["--accelerators", "180x3", "--rate", "1gbit"], 2, "1, 2, 4"),
        ):
            r = self.partition(*args, code=code)
            self.assertIn(text, r.stderr, args)
        self.assertIn("Example:", shoal.run("partition", "--help").stdout)


class Model(unittest.TestCase):
    def test_show(self):
        r = shoal.run("model", "show", "lenet")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("431080 parameters", r.stdout)
        self.assertIn("conv2", r.stdout)
        found = json.loads(shoal.run("model", "show", "gpt-3", "--json").stdout)
        self.assertFalse(found["trainable"])
        self.assertEqual(sum(l["params"] for l in found["layers"]), found["params"])
        self.assertEqual(len(found["layers"]), 98)
        self.assertIn("cannot train", shoal.run("model", "show", "turing-nlg").stdout)
        self.assertNotIn("cannot train", shoal.run("model", "show", "resnet-50").stdout)

    def test_list_and_bad_input(self):
        listed = shoal.run("model", "--list").stdout
        found = json.loads(shoal.run("model", "--list", "--json").stdout)
        for entry in found["models"] + found["kinds"]:
            self.assertIn(entry["name"], listed)
        for name in ("alexnet-hypar", "resnet-152", "megatron-530b", "transformer"):
            self.assertIn(name, listed)
        for args, code, text in (
            (["show", "lenett"], 2, "lenet"),
            (["show"], 2, "which model"),
            ([], 2, "what to do"),
            (["draw", "lenet"], 2, "what to do"),
            (["show", "./none.json"], 1, "none.json"),
        ):
            r = shoal.run("model", *args)
            self.assertEqual(r.returncode, code, r.stderr)
            self.assertIn(text, r.stderr)
        self.assertIn("Example:", shoal.run("model", "--help").stdout)


if __name__ == "__main__":
    shoal.main()
