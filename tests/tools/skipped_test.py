# SPDX-License-Identifier: Apache-2.0
"""tools/skipped.py tells from a report of ctest why tests were skipped."""
import os
import subprocess
import sys
import tempfile
import unittest

SKIPPED = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "skipped.py"
)
TESTS = """
add_test(fine echo fine)
add_test(b sh -c "echo trying; echo no verilator here; exit 77")
add_test(a sh -c "echo no verilator here; exit 77")
add_test(mute sh -c "exit 77")
add_test(deb sh -c "echo 'skipped: <no> packages'; exit 77")
add_test(broken sh -c "echo broken; exit 1")
set_tests_properties(a b mute deb broken PROPERTIES SKIP_RETURN_CODE 77)
"""


class Skipped(unittest.TestCase):
    def test_reasons_by_test(self):
        with tempfile.TemporaryDirectory(prefix="shoal-test-") as folder:
            with open(os.path.join(folder, "CTestTestfile.cmake"), "w", encoding="ascii") as file:
                file.write(TESTS)
            command = ["ctest", "--test-dir", folder, "--output-junit", "report.xml"]
            subprocess.run(command, capture_output=True, check=False)
            report = os.path.join(folder, "report.xml")
            said = subprocess.run([sys.executable, SKIPPED, report], capture_output=True, text=True)
        self.assertEqual(
            said.stdout.splitlines(),
            [
                "skipped deb: <no> packages",
                "skipped mute: no reason given",
                "skipped a, b: no verilator here",
            ],
            said.stderr,
        )


if __name__ == "__main__":
    unittest.main()
