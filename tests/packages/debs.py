# SPDX-License-Identifier: Apache-2.0
"""The Debian packages on this very system: installed, used as the README says, purged. Shared by
deb_test.py and the claim packages-install."""

import glob
import os
import re
import shutil
import subprocess

import packages

NAMES = ["libshoal0", "libshoal-train0", "libshoal-dev", "shoal", "python3-shoal"]
FOLDERS = ["/bin", "/etc", "/lib", "/opt", "/sbin", "/srv", "/usr", "/var/lib"]
KEPT_BOOKS = ("/var/lib/dpkg", "/var/lib/apt")  # what dpkg remembers is not what packages leave
EXAMPLES = "/usr/share/doc/libshoal-dev/examples"


def found(folder):
    """The packages in a folder, the library first; [] if they are not all there."""
    paths = [glob.glob(os.path.join(folder, f"{name}_*.deb")) for name in NAMES]
    return [one[0] for one in paths] if all(len(one) == 1 for one in paths) else []


def reason():
    """Why nothing can be installed here, or None."""
    if shutil.which("dpkg") is None:
        return "dpkg is missing: not a Debian system"
    if os.geteuid() != 0:
        return "root is needed to install packages"
    asked = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *NAMES]
    known = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    present = [line.split()[0] for line in known.splitlines() if line.endswith(" installed")]
    return f"{', '.join(present)} is installed here already" if present else None


def files():
    """Every path below FOLDERS; byte code only of our package: any run of Python makes some."""
    paths = set()
    for folder in FOLDERS:
        if os.path.islink(folder):
            continue
        for at, folders, names in os.walk(folder):
            if at.startswith(KEPT_BOOKS):
                folders.clear()
                continue
            if "__pycache__" not in at or "/shoal/" in at:
                paths.update(os.path.join(at, name) for name in folders + names)
    return {path for path in paths if not path.endswith("__pycache__") or "/shoal/" in path}


def install(debs):
    packages.run("dpkg", "--install", *debs, env={"DEBIAN_FRONTEND": "noninteractive"})


def purge():
    packages.run("dpkg", "--purge", *reversed(NAMES), env={"DEBIAN_FRONTEND": "noninteractive"})


def readme_commands():
    """The commands under "First steps", as somebody types them who has the package; fewer images,
    one epoch and small buffers, which are further options of the same commands."""
    with open(os.path.join(packages.ROOT, "README.md"), encoding="utf-8") as file:
        shown = re.search(r"## First steps\n\n(?:<!--.*-->\n\n)?((?:    .*\n)+)", file.read())
    lines = shown.group(1).replace("\\\n", " ").splitlines()
    lines = [re.sub(r"\s+#.*", "", line).split() for line in lines]
    commands = [["shoal", *line[1:]] for line in lines if line[0] == "build/release/shoal"]
    smaller = {
        "data": ["--train", "2000", "--test", "500"],
        "train": ["--epochs", "1"],
        "bench": ["--size", "1M"],
    }
    return [command + smaller.get(command[1], []) for command in commands]


def use_readme(folder):
    """Run the README's first steps in a folder; without labs where there can be none."""
    lab = ["shoal", "run", "-n", "1", "--lab", "rate=1gbit", "--", "true"]
    labs = subprocess.run(lab, capture_output=True, check=False).returncode == 0
    for command in readme_commands():
        if "--lab" in command and not labs:
            at = command.index("--lab")
            del command[at : at + 2]
        packages.run(*command, cwd=folder)


def use_library(folder):
    """Build the example against the installed library, as its file says, and run it."""
    program = os.path.join(folder, "c_allreduce")
    flags = packages.run("pkg-config", "--cflags", "--libs", "shoal").split()
    packages.run("cc", os.path.join(EXAMPLES, "c_allreduce.c"), "-o", program, *flags, "-lm")
    said = packages.run("shoal", "run", "-n", "2", "--", program)
    assert "2 ranks, identity: largest error 0.0000" in said, said


def use_python():
    """Import it from where it is installed; NumPy's example where NumPy is."""
    code = "import shoal; print(shoal.__path__[0], shoal._library.path)"
    said = packages.run(packages.PYTHON, "-c", code, cwd="/").split()
    assert said[0] == "/usr/lib/python3/dist-packages/shoal", said
    assert os.path.basename(said[1]).startswith("libshoal.so."), said
    if os.path.isdir("/usr/lib/python3/dist-packages/numpy"):
        example = "/usr/share/doc/python3-shoal/examples/numpy_allreduce.py"
        packages.run("shoal", "run", "-n", "2", "--", packages.PYTHON, example, cwd="/")


def use_pages():
    page = packages.run("man", "--where", "shoal-train").strip()
    assert page.startswith("/usr/share/man/man1/"), page
