# SPDX-License-Identifier: Apache-2.0
"""bench/e2e/language: table, CSV and picture from a few steps; what was run is kept; the time of a
method at a rate, which it takes from a job without gradients, is that of the one with them."""

import csv
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import shoal

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "bench", "e2e", "language")
WEIGHTS = 31424


def load():
    sys.dont_write_bytecode = True
    os.environ["SHOAL"] = os.path.abspath(shoal.SHOAL)
    loader = importlib.machinery.SourceFileLoader("language_bench", PROGRAM)
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("language_bench", loader)
    )
    loader.exec_module(module)
    return module


class Language(unittest.TestCase):
    def run_it(self, folder, *args):
        return subprocess.run(
            [PROGRAM, "--small", "--workers", "2", "--steps", "4", "--every", "18", "--out", folder,
             "--kept", folder, *args],
            capture_output=True, text=True, timeout=200, check=False,
            env=dict(os.environ, SHOAL=os.path.abspath(shoal.SHOAL), PYTHONDONTWRITEBYTECODE="1"),
        )  # fmt: skip

    def test_two_methods(self):
        if not os.path.isdir("/usr/share/common-licenses"):
            self.skipTest("no /usr/share/common-licenses")
        with tempfile.TemporaryDirectory(prefix="shoal-test-") as folder:
            r = self.run_it(folder, "--methods", "SparseLoCo", "NoLoCo")
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(os.path.join(folder, "language.csv"), encoding="utf-8") as file:
                rows = {row["method"]: row for row in csv.DictReader(file)}
            self.assertEqual(["all_reduce", "SparseLoCo", "NoLoCo"], list(rows))
            sent = {name: float(row["bytes per step"]) for name, row in rows.items()}
            self.assertAlmostEqual(4 * WEIGHTS, sent["all_reduce"], delta=0.01 * 4 * WEIGHTS)
            self.assertAlmostEqual(sent["all_reduce"] / 18, sent["NoLoCo"], delta=1)
            self.assertLess(400 * sent["SparseLoCo"], sent["all_reduce"])
            self.assertLess(float(rows["all_reduce"]["busy at 10"]), 10)
            self.assertGreater(float(rows["SparseLoCo"]["busy at 10"]), 90)
            xml.etree.ElementTree.parse(os.path.join(folder, "language.svg"))
            self.assertIn("| NoLoCo |", r.stdout)
            runs = {name: os.stat(os.path.join(folder, "runs", name)).st_mtime_ns
                    for name in os.listdir(os.path.join(folder, "runs"))}
            again = self.run_it(folder, "--methods", "NoLoCo", "SparseLoCo")
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertEqual(runs, {
                name: os.stat(os.path.join(folder, "runs", name)).st_mtime_ns
                for name in os.listdir(os.path.join(folder, "runs"))})  # fmt: skip
            self.as_long_with_gradients(folder)

    def as_long_with_gradients(self, folder):
        """A round of NoLoCo, with gradients and without: the same virtual time and bytes."""
        model = os.path.join(folder, "lm-tiny.json:parts")
        words = ("sim", "--model", model, "--workers", 2, "--sync", "noloco:every=3", "--network",
                 "links:rate=50mbit", "--compute", "fixed:ms=5", "--no-mixing", "--json")
        found = []
        for more in (("--iterations", 3),
                     ("--iterations", 3, "--data", os.path.join(folder, "text-64"), "--batch", 2,
                      "--no-eval")):
            r = shoal.run(*words, *more)
            self.assertEqual(r.returncode, 0, r.stderr)
            result = json.loads(r.stdout)
            found.append((result["duration_s"], result["sent_bytes"]))
        self.assertEqual(found[0], found[1])

    def test_what_goes_to_all_costs_so_whatever_the_collective(self):
        """Seven times a share of 10^6 elements from each of eight, by the codec's bytes."""
        for codec, each in (("demo", 5.5 * 32 / 4096), ("onebit", 0.1406)):
            for collective in ("ring", "gather"):
                r = shoal.run("sim", "--params", 1000000, "--workers", 8, "--iterations", 1,
                              "--network", "links:rate=50mbit", "--compute", "fixed:ms=5",
                              "--codec", codec, "--collective", collective, "--json")
                self.assertEqual(r.returncode, 0, r.stderr)
                sent = json.loads(r.stdout)["sent_bytes"]
                self.assertAlmostEqual(1, sent / (8 * 7 * 1e6 * each), delta=0.01, msg=codec)

    def test_other_models(self):
        """--small has a net of its own."""
        r = self.run_it("nowhere", "--model", "gpt-nano")
        self.assertEqual(r.returncode, 2)
        self.assertIn("leave --model out", r.stderr)

    def test_methods_are_words_that_the_library_takes(self):
        bench = load()
        plan = dict(bench.FULL, workers=8)
        for method in bench.METHODS:
            _, words = bench.words_of(method, plan)
            r = shoal.run("sim", "--params", 1000, "--iterations", 2, "--network",
                          "links:rate=1gbit", *words)
            self.assertEqual(r.returncode, 0, f"{method}: {r.stderr}")


if __name__ == "__main__":
    shoal.main()
