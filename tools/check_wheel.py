#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check a wheel as auditwheel would: it runs on every Linux that its tag promises, and tells nobody
where it was made. Needs readelf.

    tools/check_wheel.py build/packages/shoal-*.whl"""

import argparse
import base64
import csv
import hashlib
import os
import re
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import elf  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What PEP 600 lets a wheel presume; the rest has to be inside.
POLICY = frozenset(
    "libc.so.6 libm.so.6 libdl.so.2 librt.so.1 libpthread.so.0 libutil.so.1 libresolv.so.2 "
    "libgcc_s.so.1 libstdc++.so.6 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1".split()
)
GCC_MAX = (7, 0, 0)  # of libgcc_s, which the policy presumes: older than any glibc 2.28's GCC 8
# of libstdc++ (oneDNN's alone), of which a process should have no second: GCC 11's for Debian 12,
# GCC 13's for Debian 13, older than the libstdc++ of any system with such a glibc
CXX_MAX = (3, 4, 32)
MACHINES = {"x86_64": "X86-64", "aarch64": "AArch64"}
SOURCE = re.compile(rb"/[\w./+-]*/(?:src|cli|python|include/shoal)/[\w/]+\.(?:c|h|inc)\b")


def is_ours(name):
    """The command, libshoal or libshoal_train."""
    return re.fullmatch(r"shoal|libshoal(_train)?\.so\.\d+", os.path.basename(name)) is not None


class Wheel:
    """An unpacked wheel: names, where they lie, and what its file name promises."""

    def __init__(self, path, folder):
        self.folder = folder
        self.file = os.path.basename(path)
        parts = self.file.removesuffix(".whl").split("-")
        self.info = f"{parts[0]}-{parts[1]}.dist-info"
        self.tag = "-".join(parts[2:])
        with zipfile.ZipFile(path) as archive:
            bad = [n for n in archive.namelist() if n.startswith("/") or ".." in n.split("/")]
            if bad:
                raise ValueError(f"{bad[0]} lies outside of the wheel")
            archive.extractall(folder)
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        self.modes = {entry.filename: entry.external_attr >> 16 for entry in entries}
        self.names = sorted(self.modes)
        self.elves = {n: elf.read(self.path(n)) for n in self.names if elf.is_elf(self.path(n))}

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        if name not in self.modes:
            return b""
        with open(self.path(name), "rb") as file:
            return file.read()


def check_tag(wheel):
    """The file's name is what WHEEL says, and a platform that we know how to check."""
    said = re.findall(r"^Tag: (.+)$", wheel.read(f"{wheel.info}/WHEEL").decode(), re.M)
    if said != [wheel.tag]:
        yield f"WHEEL says {said}, the file's name {wheel.tag}"
    if not re.fullmatch(r"py3-none-manylinux_\d+_\d+_(x86_64|aarch64)", wheel.tag):
        yield f"{wheel.tag} is not py3-none-manylinux_MAJOR_MINOR_MACHINE"
    elif not wheel.elves:
        yield "no library inside"


def check_needed(wheel):
    """Every library is inside, in the same folder, or presumed by the policy."""
    for name, found in wheel.elves.items():
        beside = {
            os.path.basename(n) for n in wheel.elves if os.path.dirname(n) == os.path.dirname(name)
        }
        for needed in found.needed:
            if needed not in POLICY and needed not in beside:
                yield f"{name} needs {needed}, which is not in the wheel"
        if found.soname and found.soname != os.path.basename(name):
            yield f"{name} calls itself {found.soname}"


def check_paths(wheel):
    for name, found in wheel.elves.items():
        for path in found.paths:
            if path != "$ORIGIN":
                yield f"{name}: libraries are looked for in {path!r}, not in $ORIGIN"
        if not found.paths and set(found.needed) - POLICY:
            yield f"{name} does not look in $ORIGIN"


def check_versions(wheel):
    """No symbol is newer than the tag's glibc; the machine is the tag's."""
    promised = re.search(r"manylinux_(\d+)_(\d+)_(\w+)$", wheel.tag)
    if not promised:
        return
    limits = {"GLIBC": (int(promised.group(1)), int(promised.group(2))), "GCC": GCC_MAX}
    limits["GLIBCXX"] = CXX_MAX
    for name, found in wheel.elves.items():
        for kind, limit in limits.items():
            newest = found.versions.get(kind, ())
            if newest > limit:
                shown = ".".join(map(str, newest))
                yield f"{name} needs {kind}_{shown}, the tag promises {'.'.join(map(str, limit))}"
        if MACHINES.get(promised.group(3), "?") not in found.machine:
            yield f"{name} is for {found.machine}, the tag says {promised.group(3)}"


def check_build_paths(wheel, forbidden):
    """No trace of the folder in which it was built, nor of any C file by its whole path."""
    forbidden = [path.encode() for path in forbidden if len(path) > 2]
    for name in wheel.names:
        data = wheel.read(name)
        found = [path.decode() for path in forbidden if path in data]
        match = SOURCE.search(data) if is_ours(name) else None
        if found or match:
            yield f"{name} names {found[0] if found else match.group().decode()}"


def check_licences(wheel):
    """Ours, and that of each library beside libshoal, as bundled.txt lists them."""
    folder = f"{wheel.info}/licenses"
    if not wheel.read(f"{folder}/LICENSE"):
        yield f"{folder}/LICENSE is missing"
    listed = {}
    for line in wheel.read(f"{folder}/bundled.txt").decode().splitlines():
        library, _package, _version, licence = line.split()
        listed[library] = licence
    for name in wheel.elves:
        base = os.path.basename(name)
        if is_ours(name):
            continue
        if base not in listed:
            yield f"{name} is not listed in licenses/bundled.txt"
        elif not wheel.read(f"{folder}/{listed[base]}").strip():
            yield f"{name}: its licence {listed[base]} is missing or empty"


def check_record(wheel):
    """RECORD lists every file with its digest; nothing that a compiler or an editor left."""
    rows = csv.reader(wheel.read(f"{wheel.info}/RECORD").decode().splitlines())
    digests = {row[0]: row[1] for row in rows}
    for name in wheel.names:
        raw = hashlib.sha256(wheel.read(name)).digest()
        wanted = "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
        if not name.endswith("/RECORD") and digests.get(name) != wanted:
            yield f"{name}: {'another digest' if name in digests else 'not'} in RECORD"
        if re.search(r"(__pycache__|\.(pyc|o|a|swp|orig))(/|$)", name):
            yield f"{name} does not belong into a wheel"
        if os.path.basename(name) == "shoal" and not wheel.modes[name] & 0o111:
            yield f"{name} is not executable"
    yield from (
        f"RECORD lists {name}, which is missing" for name in set(digests) - set(wheel.names)
    )


def check(path, forbidden):
    """Everything that is wrong with a wheel, a line each."""
    with tempfile.TemporaryDirectory(prefix="shoal-wheel-") as folder:
        try:
            wheel = Wheel(path, folder)
        except (ValueError, IndexError, zipfile.BadZipFile) as error:
            return [str(error)]
        checks = [
            check_tag,
            check_needed,
            check_paths,
            check_versions,
            check_licences,
            check_record,
        ]
        problems = [problem for one in checks for problem in one(wheel)]
        return problems + list(check_build_paths(wheel, forbidden))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("wheel", nargs="+")
    parser.add_argument(
        "--forbid", action="append", metavar="PATH", help="no file may name it (tree and home)"
    )
    options = parser.parse_args()
    forbidden = options.forbid or [ROOT, os.path.expanduser("~")]
    status = 0
    for path in options.wheel:
        problems = check(path, forbidden)
        for problem in problems:
            print(f"{os.path.basename(path)}: {problem}")
        status |= bool(problems)
        if not problems:
            print(f"{os.path.basename(path)}: {os.path.getsize(path)} bytes, no fault")
    sys.exit(status)


if __name__ == "__main__":
    main()
