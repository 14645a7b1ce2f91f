# SPDX-License-Identifier: Apache-2.0
"""A small tree on disk and one run of a checker over it."""

import os
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools")


class CheckerCase(unittest.TestCase):
    """Base of the self-tests: tool is the script's name."""

    tool = ""

    def check(self, files):
        """Run the tool over {path: text}; returns (exit status, output)."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as file:
                    file.write(text)
            command = [sys.executable, os.path.join(TOOLS, self.tool), "--root", root]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual("", done.stderr)
        return done.returncode, done.stdout

    def accepts(self, files):
        status, output = self.check(files)
        self.assertEqual(0, status, output)

    def refuses(self, files, *parts):
        status, output = self.check(files)
        self.assertEqual(1, status, output)
        for part in parts:
            self.assertIn(part, output)
