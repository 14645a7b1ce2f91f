# SPDX-License-Identifier: Apache-2.0
"""shoal predict has Calculon's columns: a part of bench/e2e/calculon, which says how."""
import os
import subprocess
import sys
import unittest

import shoal


class Calculon(unittest.TestCase):
    def test_columns(self):
        bench = os.path.join(shoal.ROOT, "bench", "e2e", "calculon")
        done = subprocess.run([sys.executable, bench, "--count", "25"], capture_output=True,
                              text=True, check=False, timeout=120,
                              env=dict(os.environ, SHOAL=shoal.SHOAL))  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("0 of 12 columns", done.stdout)


if __name__ == "__main__":
    shoal.main()
