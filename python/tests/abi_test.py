#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""_abi.py is what the headers say: made from them anew, and compared with what the C compiler lays
out. The version handshake refuses other releases."""

import ctypes
import os
import re
import subprocess
import sys
import tempfile
import unittest

from shoal import _abi, _library

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STRUCTS = {
    name: kind
    for name, kind in vars(_abi).items()
    if isinstance(kind, type) and issubclass(kind, ctypes.Structure)
}


def laid_out():
    """{(structure, field): (offset, size)} by the C compiler; field "": the whole."""
    lines = [f'#include "shoal/{h}"' for h in sorted(os.listdir(f"{ROOT}/include/shoal"))]
    lines += ["#include <stdio.h>", "int main(void)", "{"]
    for name, kind in STRUCTS.items():
        lines.append(f'printf("{name} . 0 %zu\\n", sizeof({name}));')
        for field, _ in kind._fields_:
            member = f"(({name} *)0)->{field}"
            lines.append(
                f'printf("{name} {field} %zu %zu\\n", offsetof({name}, {field}), sizeof({member}));'
            )
    lines += ["return 0;", "}"]
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "sizes.c"), os.path.join(folder, "sizes")
        with open(source, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        subprocess.run(["cc", "-I", f"{ROOT}/include", "-o", program, source], check=True)
        done = subprocess.run([program], check=True, capture_output=True, text=True)
    rows = (line.split() for line in done.stdout.splitlines())
    return {(name, field): (int(at), int(size)) for name, field, at, size in rows}


class AbiTest(unittest.TestCase):
    def test_the_file_is_made_from_the_headers(self):
        try:
            import pycparser
        except ImportError:
            self.skipTest("python3-pycparser is not installed")
        del pycparser
        done = subprocess.run(
            [sys.executable, f"{ROOT}/tools/make_abi.py", "--check"], capture_output=True, text=True
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_every_offset_and_size_is_the_compilers(self):
        found = laid_out()
        self.assertGreater(len(STRUCTS), 40)
        for name, kind in STRUCTS.items():
            self.assertEqual(found[name, "."][1], ctypes.sizeof(kind), name)
            for field, _ in kind._fields_:
                place = getattr(kind, field)
                self.assertEqual(found[name, field], (place.offset, place.size), f"{name}.{field}")

    def test_every_function_is_exported_and_every_export_known(self):
        done = subprocess.run(
            ["nm", "-D", "--defined-only", _library.path, _library.beside(_library.path)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        exported = set(re.findall(r" T (shoal_\w+)", done.stdout))
        self.assertEqual(set(), set(_abi.FUNCTIONS) - exported)
        self.assertEqual(set(), exported - set(_abi.FUNCTIONS))

    def test_other_releases_are_refused(self):
        want = ".".join(str(part) for part in _abi.VERSION)
        _library.check_version(want, "lib")
        _library.check_version(f"{_abi.VERSION[0]}.{_abi.VERSION[1]}.99", "lib")
        for other in ("9.0.0", f"0.{_abi.VERSION[1] + 1}.0", "1", "rubbish"):
            with self.assertRaisesRegex(ImportError, "lib is libshoal " + other):
                _library.check_version(other, "lib")

    def test_a_library_that_is_not_there_is_named(self):
        code = "import shoal"
        env = {**os.environ, "SHOAL_LIBRARY": "/nowhere/libshoal.so"}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
        self.assertIn("libshoal was not found", done.stderr)
        self.assertIn("/nowhere/libshoal.so", done.stderr)


if __name__ == "__main__":
    unittest.main()
