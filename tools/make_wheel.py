#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Make the wheel: python/shoal, libshoal.so, libshoal_train.so, the command, and every library
that they need and that not every Linux has. `pip install .` calls build_wheel() (PEP 517,
pyproject.toml).

    tools/make_wheel.py --build build/release --out build/packages
    tools/make_wheel.py --build build/arm64 --root build/arm64-root   for another system

Libraries get names of their own (a hash) and are found beside each other ($ORIGIN), so that a
process may hold another OpenBLAS or OpenSSL, too; oneDNN keeps its own, by which it is loaded. The
tag names the oldest glibc that will do."""

import argparse
import base64
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import elf  # noqa: E402
from check_wheel import POLICY  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMON = "/usr/share/common-licenses"
# The command in bin/: it does not import the package, which takes longer than the command itself.
SCRIPT = """#!python
import importlib.util, os, sys
home = importlib.util.find_spec("shoal").submodule_search_locations[0]
os.execv(os.path.join(home, "_lib", "shoal"), sys.argv)
"""


def tool(*command):
    """Its output; what fails ends the build with its own words."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        sys.exit(f"make_wheel: {command[0]} is missing (packages.txt; make deps)")
    if done.returncode != 0:
        sys.exit(f"make_wheel: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def project():
    """The [project] table, its version that of CMakeLists.txt."""
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        table = tomllib.load(file)["project"]
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        table["version"] = re.search(r"project\(shoal VERSION ([\d.]+)", file.read()).group(1)
    return table


def metadata(table):
    with open(os.path.join(ROOT, table["readme"]), encoding="utf-8") as file:
        readme = file.read()
    lines = ["Metadata-Version: 2.1", f"Name: {table['name']}", f"Version: {table['version']}"]
    lines += [f"Summary: {table['description']}", "License: Apache-2.0"]
    lines += [f"Keywords: {','.join(table['keywords'])}"]
    lines += [f"Classifier: {name}" for name in table["classifiers"]]
    lines += [f"Requires-Python: {table['requires-python']}"]
    for extra, wanted in table["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}"]
        lines += [f"Requires-Dist: {name}; extra == '{extra}'" for name in wanted]
    return "\n".join(lines + ["Description-Content-Type: text/markdown", "", readme])


def compiled():
    """Build the release preset; its folder."""
    tool("cmake", "--preset", "release", "-S", ROOT)
    folder = os.path.join(ROOT, "build", "release")
    tool("cmake", "--build", folder, "--target", "shoal", "shoal_train", "shoal_command")
    return folder


def loaded_late(build):
    """{name asked for: file} of what libshoal_train loads by name when it is needed: oneDNN."""
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
        path = re.search(r"^SHOAL_ONEDNN_LIBRARY:\w+=(.+)$", file.read(), re.M).group(1)
    target = os.path.realpath(path)
    version = re.search(r"\.so\.(\d+)\.(\d+)", target)
    if version and (int(version[1]), int(version[2])) < (2, 6):
        return {}  # libshoal_train refuses it (src/nn/onednn.c)
    return {elf.read(path).soname: target}


OURS = ("libshoal.so", "libshoal_train.so")
TRIPLETS = {"X86-64": "x86_64-linux-gnu", "AArch64": "aarch64-linux-gnu"}


def machine_of(path):
    """The triplet of what a file was built for."""
    (triplet,) = (t for name, t in TRIPLETS.items() if name in elf.read(path).machine)
    return triplet


class Here:
    """Libraries of this system."""

    common = "/usr/share/common-licenses"
    strip = "strip"

    def foreign(self, paths):
        """{name asked for: file} of all libraries, theirs too, that POLICY does not presume."""
        found = {}
        for path in paths:
            for name, target in re.findall(r"(\S+) => (/\S+)", tool("ldd", path)):
                if name not in POLICY and not name.startswith(OURS):
                    found[name] = os.path.realpath(target)
        return found

    def package_of(self, path):
        """Debian's (package, version) that a library belongs to."""
        # Debian 12 knows a file by the path it was packed with, with or without /usr.
        known = [path, path.removeprefix("/usr")]
        for candidate in known:
            done = subprocess.run(
                ["dpkg", "-S", candidate], capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                package = done.stdout.split(": ")[0]
                words = "${Package} ${Version}"
                return tuple(tool("dpkg-query", "-W", "-f", words, package).split())
        sys.exit(f"make_wheel: {path} is of no Debian package: where is its licence?")

    def copyright(self, package):
        return f"/usr/share/doc/{package}/copyright"


class Folder(Here):
    """Libraries in a folder that tools/root.sh made, of another release or machine."""

    def __init__(self, root, triplet):
        self.root, self.triplet = os.path.abspath(root), triplet
        self.common = self.root + COMMON
        self.strip = f"{triplet}-strip" if shutil.which(f"{triplet}-strip") else "strip"
        with open(os.path.join(self.root, ".packages"), encoding="utf-8") as file:
            lines = (line.rstrip("\n").split(" ", 2) for line in file)
            self.packages = {path: (package, version) for package, version, path in lines}

    def foreign(self, paths):
        found, asked = {}, [name for path in paths for name in elf.read(path).needed]
        while asked:
            name = asked.pop()
            if name in found or name in POLICY or name.startswith(OURS):
                continue
            places = [f"usr/lib/{self.triplet}", f"lib/{self.triplet}"]
            files = [os.path.join(self.root, place, name) for place in places]
            files = [file for file in files if os.path.exists(file)]
            if not files:
                sys.exit(f"make_wheel: {self.root} has no {name}")
            found[name] = os.path.realpath(files[0])
            asked += elf.read(found[name]).needed
        return found

    def package_of(self, path):
        inside = path.removeprefix(self.root)
        for candidate in (inside, inside.removeprefix("/usr"), "/usr" + inside):
            if candidate in self.packages:
                return self.packages[candidate]
        sys.exit(f"make_wheel: {path} is of no package in {self.root}: where is its licence?")

    def copyright(self, package):
        return f"{self.root}/usr/share/doc/{package}/copyright"


def add_licences(system, library, path, folder, bundled):
    """The licence of a library, and those that it refers to."""
    package, version = system.package_of(path)
    with open(system.copyright(package), encoding="utf-8", errors="replace") as file:
        text = file.read()
    with open(os.path.join(folder, f"{package}.copyright"), "w", encoding="utf-8") as file:
        file.write(text)
    for name in set(re.findall(rf"{COMMON}/([\w.+-]*[\w+])", text)):
        source = os.path.join(system.common, name)
        if os.path.isfile(source):
            shutil.copy(source, os.path.join(folder, name))
    bundled.append(f"{library} {package} {version} {package}.copyright\n")


def relocate(path, names, soname=None):
    """Names of other libraries become those of the wheel, found beside this file. One change a
    call: patchelf 0.14 mixes several up."""
    changes = [["--set-soname", soname]] if soname else []
    for name in elf.read(path).needed:
        if name in names:
            changes.append(["--replace-needed", name, names[name]])
    for change in changes + [["--set-rpath", "$ORIGIN"]]:
        tool("patchelf", *change, path)


def add_libraries(system, build, lib, licences):
    """The libraries of ours, the command and what they need, into lib/."""
    version = project()["version"]
    ours = {"shoal": "shoal"}
    for name in ("libshoal", "libshoal_train"):
        ours[f"{name}.so.{version.split('.')[0]}"] = f"{name}.so.{version}"
    missing = [name for name in ours.values() if not os.path.exists(os.path.join(build, name))]
    if missing:
        sys.exit(f"make_wheel: {build} has no {', '.join(missing)}: build it first")
    late = loaded_late(build)
    known = [os.path.join(build, name) for name in ours.values()]
    theirs = system.foreign(known + list(late.values()))
    names = {}
    for name, path in theirs.items():
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()[:8]
        stem, _, rest = name.partition(".so")
        names[name] = f"{stem}-{digest}.so{rest}"
    theirs |= late
    names |= {name: name for name in late}
    bundled = []
    for name, path in sorted(theirs.items()):
        shutil.copyfile(path, os.path.join(lib, names[name]))
        relocate(os.path.join(lib, names[name]), names, names[name])
        add_licences(system, names[name], path, licences, bundled)
    for name, built in ours.items():
        target = os.path.join(lib, name)
        tool(system.strip, "--strip-unneeded", "-o", target, os.path.join(build, built))
        relocate(target, names)
    os.chmod(os.path.join(lib, "shoal"), 0o755)
    with open(os.path.join(licences, "bundled.txt"), "w", encoding="utf-8") as file:
        file.writelines(bundled)


def tag_of(lib):
    """py3-none-manylinux_2_X: the newest symbol of glibc that any file asks for."""
    newest = max(elf.read(path).versions.get("GLIBC", ()) for path in glob.glob(lib + "/*"))
    machine = machine_of(os.path.join(lib, "shoal")).split("-")[0]
    return f"py3-none-manylinux_{newest[0]}_{newest[1]}_{machine}"


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def pack(tree, wheel, info):
    """The tree as a zip with RECORD last; the same tree gives the same bytes."""
    date = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6]
    paths = [os.path.join(at, name) for at, _, names in os.walk(tree) for name in names]
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name, data, executable):
            entry = zipfile.ZipInfo(name, date)
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 6)

        for path in sorted(paths):
            name = os.path.relpath(path, tree)
            with open(path, "rb") as file:
                data = file.read()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
            add(name, data, os.access(path, os.X_OK))
        add(f"{info}/RECORD", "".join(record) + f"{info}/RECORD,,\n", False)


def make(build, out, root=None):
    """The wheel from a build folder; its file name in out."""
    table = project()
    system = Folder(root, machine_of(os.path.join(build, "shoal"))) if root else Here()
    name = f"{table['name']}-{table['version']}"
    info = f"{name}.dist-info"
    with tempfile.TemporaryDirectory(prefix="shoal-wheel-") as tree:
        ignore = shutil.ignore_patterns("__pycache__", "_lib")
        shutil.copytree(
            os.path.join(ROOT, "python", "shoal"), os.path.join(tree, "shoal"), ignore=ignore
        )
        lib, licences = os.path.join(tree, "shoal", "_lib"), os.path.join(tree, info, "licenses")
        os.makedirs(lib)
        os.makedirs(licences)
        shutil.copy(os.path.join(ROOT, "LICENSE"), licences)
        add_libraries(system, build, lib, licences)
        tag = tag_of(lib)
        head = f"Wheel-Version: 1.0\nGenerator: make_wheel\nRoot-Is-Purelib: false\nTag: {tag}\n"
        write(os.path.join(tree, info, "WHEEL"), head)
        write(os.path.join(tree, info, "METADATA"), metadata(table))
        write(os.path.join(tree, f"{name}.data", "scripts", "shoal"), SCRIPT, 0o755)
        os.makedirs(out, exist_ok=True)
        pack(tree, os.path.join(out, f"{name}-{tag}.whl"), info)
    return f"{name}-{tag}.whl"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517. `--config-settings build-dir=FOLDER` takes what is built there."""
    del metadata_directory
    return make((config_settings or {}).get("build-dir") or compiled(), wheel_directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", help="a build folder, taken as it is (made: build/release)")
    parser.add_argument("--out", default="build/packages", help="where to (build/packages)")
    parser.add_argument("--root", help="a folder of tools/root.sh: libraries come from there")
    options = parser.parse_args()
    if options.root and not options.build:
        parser.error("--root needs --build: what was built against it")
    print(os.path.join(options.out, make(options.build or compiled(), options.out, options.root)))


if __name__ == "__main__":
    main()
