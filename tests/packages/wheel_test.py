#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel of what is built: pip makes it and installs it without a network, check_wheel.py finds
no fault, and two ranks of a fresh environment reduce with the library inside."""

import os
import re
import sys
import tempfile
import unittest

import packages

ALONE = """
import array, shoal
home = shoal.__path__[0]
assert shoal._library.path.startswith(home), shoal._library.path
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "openblas" in line}
assert mapped and all(path.startswith(home) for path in mapped), mapped
x = shoal.allreduce(array.array("f", [1.0 + shoal.rank(), 2.0]))
assert list(x) == [3.0, 4.0], x
"""


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = packages.missing("patchelf", "readelf", "strip")
        if reason:
            print(f"skipped: {reason}")
            sys.exit(packages.SKIP)
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-wheel-test-"))
        cls.wheel = packages.make_wheel(cls.folder, os.environ.get("SHOAL_BUILD", "build/dev"))
        cls.bin = packages.fresh_venv(os.path.join(cls.folder, "venv"), cls.wheel, site=False)

    def test_the_checker_finds_no_fault(self):
        self.assertEqual([], packages.check_wheel(self.wheel))

    def test_convolutions_load_the_onednn_inside(self):
        shoal = os.path.join(self.bin, "shoal")
        data = os.path.join(self.folder, "digits")
        packages.run(shoal, "data", "digits", "--out", data, "--train", "64", "--test", "32")
        words = "train --workers 1 --model lenet --batch 16 --steps 2 --data".split()
        said = packages.run(shoal, *words, data, cwd=self.folder, env={"LD_DEBUG": "libs"})
        loaded = re.findall(r"calling init: (\S*libdnnl\S*)", said)
        self.assertEqual(1, len(loaded), said[-2000:])
        self.assertIn("shoal/_lib/", loaded[0])

    def test_two_ranks_with_nothing_but_the_wheel(self):
        program = [os.path.join(self.bin, "python"), "-c", ALONE]
        shoal = os.path.join(self.bin, "shoal")
        packages.run(shoal, "run", "-n", "2", "--", *program, cwd="/")
        said = packages.run(shoal, "bench", "codec", "--help", cwd="/")
        self.assertIn("error of gradient codecs", said)


if __name__ == "__main__":
    unittest.main()
