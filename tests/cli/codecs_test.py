# SPDX-License-Identifier: Apache-2.0
"""bench/e2e/codecs: its table, CSV and picture from a few steps; it leaves no codec out."""

import csv
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import shoal

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "bench", "e2e", "codecs")


def load():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("codecs_bench", PROGRAM)
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("codecs_bench", loader)
    )
    loader.exec_module(module)
    return module


class Codecs(unittest.TestCase):
    def run_it(self, folder, *args):
        return subprocess.run(
            [PROGRAM, "--quick", "--images", "128", "--out", folder, "--kept", folder, *args],
            capture_output=True,
            text=True,
            timeout=120,
            env=dict(os.environ, SHOAL=os.path.abspath(shoal.SHOAL), PYTHONDONTWRITEBYTECODE="1"),
            check=False,
        )

    def test_two_codecs(self):
        with tempfile.TemporaryDirectory(prefix="shoal-test-") as folder:
            probe = shoal.run("data", "digits", "--out", folder + "/d", "--train", 8, "--test", 8)
            if probe.returncode == shoal.SKIP:
                self.skipTest(probe.stderr)
            r = self.run_it(folder, "--codecs", "terngrad", "topk")
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(os.path.join(folder, "codecs.csv"), encoding="utf-8") as file:
                rows = {row["codec"]: row for row in csv.DictReader(file)}
            self.assertEqual(list(rows), ["identity", "terngrad", "topk"])
            # direct: each of 4 workers sends 3/4 of its 431,080 elements, then its quarter to three
            self.assertEqual(float(rows["identity"]["bytes_per_worker_step"]), 2 * 3 * 431080)
            self.assertGreater(float(rows["terngrad"]["times_fewer"]), 10)
            # with sanitizers in it, computing is most of an epoch
            self.assertGreater(
                float(rows["identity"]["epoch s, 100 Mbit/s"]),
                (1 if shoal.is_sanitized() else 2) * float(rows["terngrad"]["epoch s, 100 Mbit/s"]),
            )
            xml.etree.ElementTree.parse(os.path.join(folder, "codecs.svg"))
            self.assertIn("| `topk` |", r.stdout)
            again = self.run_it(folder, "--codecs", "terngrad")  # what was trained is kept
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertEqual(len(os.listdir(os.path.join(folder, "runs"))), 3)

    def test_no_codec_is_left_out(self):
        known = shoal.run("train", "--codec", "none-of-these", "--data", "/none").stderr
        names = known.split("known: ")[1].strip().split(", ")
        module = load()
        compared = {module.name_of(codec) for codec in module.CODECS}
        self.assertEqual(compared | set(module.ELSEWHERE), set(names))
        self.assertFalse(compared & set(module.ELSEWHERE))


if __name__ == "__main__":
    shoal.main()
