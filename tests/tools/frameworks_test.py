#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/frameworks: stand-ins for CUDA's libraries let a library load that needs them and say that
there is no device; a run without a network is skipped and counted, one with a failure fails."""

import contextlib
import ctypes
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "frameworks"))

import check  # noqa: E402
import no_cuda  # noqa: E402


def compile_library(folder, name, code, *options):
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none"]
    command += ["-o", str(folder / name), *options]
    subprocess.run(command, input=code, text=True, check=True)


class NoCudaTest(unittest.TestCase):
    def test_a_library_loads_without_what_it_needs(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "lib"
            folder.mkdir()
            real = Path(name) / "real"
            real.mkdir()
            (real / "map").write_text("libcudart.so.999 { global: *; };\n")
            script = f"-Wl,--version-script={real / 'map'}"
            code = "int cudaGetDeviceCount(int *n) { *n = 8; return 0; }"
            code += "const char *cudaGetErrorString(int e) { return (void)e, (char *)0; }"
            compile_library(real, "libcudart.so.999", code, script, "-Wl,-soname,libcudart.so.999")
            user = "int cudaGetDeviceCount(int *); const char *cudaGetErrorString(int);"
            user += "int count(void) { int n; return cudaGetDeviceCount(&n); }"
            user += "const char *why(void) { return cudaGetErrorString(35); }"
            compile_library(folder, "libuser.so", user, str(real / "libcudart.so.999"))
            with self.assertRaises(OSError):
                ctypes.CDLL(str(folder / "libuser.so"))
            self.assertEqual(["libcudart.so.999"], no_cuda.make(folder))
            ctypes.CDLL(str(folder / "libcudart.so.999"), mode=os.RTLD_GLOBAL)
            loaded = ctypes.CDLL(str(folder / "libuser.so"))
            loaded.why.restype = ctypes.c_char_p
            self.assertEqual(35, loaded.count())
            self.assertIn(b"no CUDA", loaded.why())


class CheckTest(unittest.TestCase):
    def ended(self, install, run):
        """(exit status, last line, everything) of main() with these in place of the real ones."""
        check.install, check.run, check.build_helper = install, run, lambda _: None
        sys.argv = ["check.py", "build", "environment"]
        out = io.StringIO()
        with contextlib.redirect_stdout(out), self.assertRaises(SystemExit) as end:
            check.main()
        return end.exception.code, out.getvalue().strip().split("\n")[-1], out.getvalue()

    def test_without_a_network_all_is_skipped(self):
        code, line, text = self.ended(lambda _: (None, "pip: no route"), None)
        self.assertEqual(0, code)
        self.assertRegex(line, r"^0 passed, 0 failed, [1-9]\d* skipped$")
        self.assertIn("pip: no route", text)

    def test_a_failure_fails(self):
        run = lambda _, __, file, *o, **k: (  # noqa: E731
            ("failed", 1, "why") if "group" in file.name else ("passed", 1, "")
        )
        code, line, text = self.ended(lambda _: (Path("python"), None), run)
        self.assertEqual(1, code)
        self.assertRegex(line, r"^\d+ passed, 1 failed, 0 skipped$")
        self.assertIn("why", text)

    def test_every_package_has_a_name_and_pytorch_a_version(self):
        names = list(check.packages())
        self.assertIn("any", {line.split()[1] for line in self.lines() if len(line.split()) > 1})
        self.assertTrue(all(not name.startswith("-") for name in names), names)
        self.assertTrue(any(name.startswith("torch==") for name in names), names)

    def lines(self):
        return [line for line in check.LIST.read_text().splitlines() if not line.startswith("#")]


if __name__ == "__main__":
    unittest.main()
