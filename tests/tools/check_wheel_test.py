#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_wheel.py accepts a small good wheel and catches each fault that is planted into it."""

import base64
import hashlib
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import check_wheel  # noqa: E402

TAG = "py3-none-manylinux_2_36_x86_64"
INFO = "shoal-9.9.9.dist-info"
OURS, DEP, LISTED = "shoal/_lib/libshoal.so.0", "shoal/_lib/libdep-12.so.1", "licenses/bundled.txt"
FORBIDDEN = "/somewhere/shoal-tree"


def compiled(folder, name, source, *options):
    """A shared library of one line of C, as bytes."""
    path = os.path.join(folder, os.path.basename(name))
    command = ["cc", "-shared", "-fPIC", "-nostartfiles", "-xc", "-", "-xnone", "-o", path]
    link = [f"-Wl,-soname,{os.path.basename(name)}", "-Wl,--enable-new-dtags", *options]
    subprocess.run(command + link, input=source, text=True, check=True, cwd=folder)
    with open(path, "rb") as file:
        return file.read()


class CheckWheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.uname().machine != "x86_64":
            raise unittest.SkipTest("the planted libraries are for x86-64")
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.library = lambda self, name, *rest: compiled(folder, name, *rest)
        origin = "-Wl,-rpath,$ORIGIN"
        # A call that glibc versioned after 2.5, so that the tag can promise too much.
        dep = "#include <string.h>\nvoid dep(char *a, char *b, int n) { memcpy(a, b, n); }"
        ours = "void dep(char *, char *, int); void ours(char *a) { dep(a, a, 1); }"
        cls.dep, cls.source = (DEP, dep, origin), ours
        cls.good = {DEP: compiled(folder, DEP, dep, origin, "-lc")}
        cls.good[OURS] = compiled(
            folder, OURS, ours, origin, os.path.join(folder, "libdep-12.so.1")
        )
        cls.beside = os.path.join(folder, "libdep-12.so.1")
        cls.good.update(
            {
                f"{INFO}/WHEEL": f"Wheel-Version: 1.0\nTag: {TAG}\n".encode(),
                f"{INFO}/licenses/LICENSE": b"ours",
                f"{INFO}/{LISTED}": b"libdep-12.so.1 libdep1 1.0 libdep1.copyright\n",
                f"{INFO}/licenses/libdep1.copyright": b"theirs",
                "shoal/__init__.py": b"",
                "shoal-9.9.9.data/scripts/shoal": b"#!python",
            }
        )

    def problems(self, changes=None, tag=TAG, unlisted=(), modes=None):
        """What the checker says of the good wheel with some files changed (None: left out)."""
        files = {**self.good, **(changes or {})}
        files = {name: data for name, data in files.items() if data is not None}
        record = ""
        for name, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n" if name not in unlisted else ""
        files[f"{INFO}/RECORD"] = record.encode()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, f"shoal-9.9.9-{tag}.whl")
            with zipfile.ZipFile(path, "w") as archive:
                for name, data in files.items():
                    entry = zipfile.ZipInfo(name)
                    mode = 0o755 if name.endswith("/shoal") else 0o644
                    entry.external_attr = (modes or {}).get(name, mode) << 16
                    archive.writestr(entry, data)
            return check_wheel.check(path, [FORBIDDEN])

    def caught(self, text, **planted):
        found = self.problems(**planted)
        self.assertEqual(1, len(found), found)
        self.assertIn(text, found[0])

    def test_a_good_wheel(self):
        self.assertEqual([], self.problems())

    def test_a_library_that_is_not_there(self):
        changes = {DEP: None, f"{INFO}/{LISTED}": b""}
        self.caught("needs libdep-12.so.1, which is not in the wheel", changes=changes)

    def test_where_libraries_are_looked_for(self):
        for path in ("/opt/lib", "$ORIGIN:/opt/lib", "$ORIGIN/../.."):
            changes = {OURS: self.library(OURS, self.source, f"-Wl,-rpath,{path}", self.beside)}
            self.caught("not in $ORIGIN", changes=changes)
        changes = {OURS: self.library(OURS, self.source, self.beside)}
        self.caught("does not look in $ORIGIN", changes=changes)

    def test_a_name_that_is_another(self):
        other = self.library("libother.so", *self.dep[1:], "-lc")
        self.caught("calls itself libother.so", changes={DEP: other})

    def test_a_glibc_that_is_too_new(self):
        old = TAG.replace("2_36", "2_5")
        head = {f"{INFO}/WHEEL": f"Tag: {old}\n".encode()}
        self.caught("needs GLIBC_2.14, the tag promises 2.5", changes=head, tag=old)

    def test_tags(self):
        self.caught("the file's name", tag=TAG.replace("36", "37"))
        plain = "py3-none-linux_x86_64"
        head = {f"{INFO}/WHEEL": f"Tag: {plain}\n".encode()}
        self.caught("is not py3-none-manylinux", changes=head, tag=plain)
        arm = TAG.replace("x86_64", "aarch64")
        head = {f"{INFO}/WHEEL": f"Tag: {arm}\n".encode()}
        found = self.problems(changes=head, tag=arm)
        self.assertEqual(2, len([line for line in found if "the tag says aarch64" in line]))

    def test_traces_of_the_build(self):
        text = f"root = '{FORBIDDEN}/python'".encode()
        self.caught(f"names {FORBIDDEN}", changes={"shoal/__init__.py": text})
        source = self.source + '\nconst char *file = "/home/me/shoal/src/base/log.c";'
        planted = self.library(OURS, source, "-Wl,-rpath,$ORIGIN", self.beside)
        self.caught("names /home/me/shoal/src/base/log.c", changes={OURS: planted})

    def test_licences(self):
        licence = f"{INFO}/licenses/libdep1.copyright"
        self.caught("LICENSE is missing", changes={f"{INFO}/licenses/LICENSE": None})
        self.caught("is missing or empty", changes={licence: None})
        self.caught("is missing or empty", changes={licence: b" \n"})
        self.caught("is not listed", changes={f"{INFO}/{LISTED}": b""})

    def test_the_record(self):
        self.caught("not in RECORD", unlisted=(OURS,))
        self.caught("does not belong", changes={"shoal/__pycache__/x.pyc": b""})
        script = "shoal-9.9.9.data/scripts/shoal"
        self.caught("is not executable", modes={script: 0o644})
        self.caught("lies outside", changes={"../escaped": b""})

    def test_what_is_no_wheel(self):
        with tempfile.NamedTemporaryFile(suffix="-1-py3-none-any.whl") as file:
            self.assertEqual(1, len(check_wheel.check(file.name, [])))
        broken = self.good[OURS][:100]
        self.assertEqual(1, len(self.problems(changes={OURS: broken})))


if __name__ == "__main__":
    unittest.main()
