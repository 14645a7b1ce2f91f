# SPDX-License-Identifier: Apache-2.0
"""tools/check_format.sh: only the house's clang-format judges, and only it rewrites."""
import os
import stat
import subprocess
import tempfile
import unittest

CHECK = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "check_format.sh"
)


class CheckFormat(unittest.TestCase):
    def check(self, version, status, *args):
        """(exit status, output, how often clang-format was asked to look at or rewrite files)"""
        with tempfile.TemporaryDirectory(prefix="shoal-test-") as folder:
            tool, log = os.path.join(folder, "clang-format-14"), os.path.join(folder, "log")
            with open(tool, "w", encoding="ascii") as file:
                file.write(
                    f'#!/bin/sh\n[ "$1" = --version ] && echo "Debian clang-format version '
                    f'{version}" && exit 0\necho "$1" >>{log}\nexit {status}\n'
                )
            os.chmod(tool, stat.S_IRWXU)
            env = dict(os.environ, PATH=folder + ":" + os.environ["PATH"])
            done = subprocess.run(
                [CHECK, *args], capture_output=True, text=True, env=env, timeout=30, check=False
            )
            calls = []
            if os.path.exists(log):
                with open(log, encoding="ascii") as file:
                    calls = file.read().split()
        return done.returncode, done.stdout, calls

    def test_another_version_is_not_asked(self):
        for args in ((), ("--fix",)):
            code, said, calls = self.check("19.1.7 (3+b1)", 0, *args)
            self.assertEqual((code, calls), (77, []))
            self.assertIn("needs clang-format 14, and here is 19", said)

    def test_the_house_version_is(self):
        self.assertEqual(self.check("14.0.6", 0)[0::2], (0, ["--dry-run"]))
        self.assertEqual(self.check("14.0.6", 1)[0::2], (1, ["--dry-run"]))
        self.assertEqual(self.check("14.0.6", 0, "--fix")[0::2], (0, ["-i"]))


if __name__ == "__main__":
    unittest.main()
