#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/gpu/run where there is no GPU: it says so, and its comparisons work on the CPU."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

import launch

launch.needs("numpy")
torch = launch.needs("torch")

RUN = Path(__file__).resolve().parents[2] / "bench" / "gpu" / "run"


def run(*options):
    return subprocess.run(
        [sys.executable, str(RUN), *options], capture_output=True, text=True, timeout=250
    )


class GpuBenchTest(unittest.TestCase):
    @unittest.skipIf(torch.cuda.is_available(), "there is a CUDA device")
    def test_without_a_device_it_says_so(self):
        done = run()
        self.assertEqual(77, done.returncode, done.stderr)
        self.assertRegex(done.stdout, "^skipped: PyTorch .* finds no CUDA device")

    def test_its_comparisons_work(self):
        done = run("--check")
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        bits = json.loads(done.stdout.splitlines()[-1])["bits"]
        self.assertEqual((60, []), (bits["compared"], bits["different"]))


if __name__ == "__main__":
    unittest.main()
