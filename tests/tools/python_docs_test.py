#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/make_python_docs.py: a page that is not what the docstrings say, one that is missing or too
many, a parameter or a class without a word, each fails the check; the pages say what the docstring
does, with its types, defaults, code and errors."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TOOL = os.path.join(ROOT, "tools", "make_python_docs.py")


class PythonDocsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="shoal-python-docs-")
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        for part in ("python/shoal", "docs/python"):
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(os.path.join(ROOT, part), os.path.join(self.root, part), ignore=ignore)

    def run_tool(self, *options):
        call = [sys.executable, TOOL, "--root", self.root, *options]
        done = subprocess.run(call, capture_output=True, text=True)
        self.assertEqual("", done.stderr)
        return done.returncode, done.stdout

    def change(self, path, old, new):
        path = os.path.join(self.root, path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(1, text.count(old), old)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))

    def assert_found(self, *words):
        code, printed = self.run_tool("--check")
        self.assertEqual(1, code, printed)
        for word in words:
            self.assertIn(word, printed)

    def test_another_docstring(self):
        self.change("python/shoal/_default.py", "Leave the job.", "Leave it.")
        self.assert_found("docs/python/close.md is not what", "docs/python/README.md is not what")
        self.assertEqual(0, self.run_tool()[0])
        self.assertEqual((0, ""), self.run_tool("--check"))
        with open(os.path.join(self.root, "docs/python/close.md"), encoding="utf-8") as file:
            self.assertIn("\nLeave it. Without one it does nothing.\n", file.read())

    def test_a_page_too_few_and_one_too_many(self):
        os.rename(f"{self.root}/docs/python/ddp.md", f"{self.root}/docs/python/ddq.md")
        self.assert_found("docs/python/ddp.md is missing", "docs/python/ddq.md is of something")
        self.run_tool()
        self.assertEqual((0, ""), self.run_tool("--check"))

    def test_a_parameter_without_a_word(self):
        self.change("python/shoal/_default.py", "def close()", "def close(gently: bool = True)")
        self.assert_found("_default.py: shoal.close does not say what `gently` is")
        self.assertIn("gently", self.run_tool()[1])  # writing does not hide it

    def test_a_method_and_a_class_without_a_word(self):
        self.change("python/shoal/codec.py", "Every codec that this library knows.", "")
        self.change("python/shoal/_comm.py", "def barrier(self,", "def barrier(self, often=1,")
        self.assert_found("shoal.codecs has no docstring", "shoal.Comm.barrier does not say")

    def test_what_a_page_says(self):
        with open(os.path.join(ROOT, "docs/python/launch.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("timeout: Optional[float] = None", text)
        self.assertIn("```python\ndef train(rate):\n    model = shoal.ddp(Net())\n", text)
        self.assertIn("Raises RankFailed", text)
        with open(os.path.join(ROOT, "docs/python/View.md"), encoding="utf-8") as file:
            self.assertIn("| `done_max` | `int` | `0` |", file.read())


if __name__ == "__main__":
    unittest.main()
