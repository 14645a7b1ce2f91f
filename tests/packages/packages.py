# SPDX-License-Identifier: Apache-2.0
"""What the tests of packages and the claim packages-install share: a wheel, a fresh environment,
two ranks. Nothing of it reaches for the network: where it may, it runs in a namespace that has
none."""

import glob
import importlib.util
import os
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON = "/usr/bin/python3"  # Debian's, which pip, venv and numpy belong to
SKIP = 77


def run(*command, offline=False, limit_s=100, **options):
    """Its output; AssertionError with all that it said if it fails. The environment is bare: what
    was set to find an uninstalled Shoal does not help."""
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C.UTF-8"}
    env.update(HOME="/nonexistent", PIP_CONFIG_FILE="/dev/null", PIP_DISABLE_PIP_VERSION_CHECK="1")
    env.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", **options.pop("env", {}))
    prefix = ("unshare", "-rn") if offline and _can_leave_the_network() else ()
    done = subprocess.run(
        [*prefix, *command],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit_s,
        check=False,
        **options,
    )
    assert done.returncode == 0, f"{' '.join(command)}: status {done.returncode}\n{done.stdout}"
    return done.stdout


def _can_leave_the_network():
    return (
        subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode == 0
    )


def missing(*tools):
    """Which of these commands, of pip and of venv are missing; None if all are there."""
    found = [name for name in tools if shutil.which(name) is None]
    code = "import ensurepip, importlib.util as u; exit(u.find_spec('pip') is None)"
    if not os.path.exists(PYTHON):
        found.append(PYTHON)
    elif subprocess.run([PYTHON, "-c", code], capture_output=True, check=False).returncode != 0:
        found.append("python3-pip or python3-venv")
    return ", ".join(found) + " is missing (packages.txt)" if found else None


def make_wheel(out, build=None):
    """`pip wheel` of the tree; build: a folder that has been built already."""
    settings = ["--config-settings", f"build-dir={build}"] if build else []
    arguments = ["wheel", "--no-build-isolation", "--no-index", "--no-deps", "-w", out, *settings]
    run(PYTHON, "-m", "pip", *arguments, ROOT, offline=True, cwd="/", limit_s=3000)
    (wheel,) = glob.glob(os.path.join(out, "*.whl"))
    return wheel


def check_wheel(wheel):
    """What tools/check_wheel.py finds wrong with it."""
    path = os.path.join(ROOT, "tools", "check_wheel.py")
    spec = importlib.util.spec_from_file_location("check_wheel", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.check(wheel, [ROOT, os.path.expanduser("~")])


def fresh_venv(folder, wheel, site=True):
    """A new environment with the wheel in it, and Debian's numpy and torch if `site`; its bin/."""
    options = ["--system-site-packages"] if site else []
    run(PYTHON, "-m", "venv", "--without-pip", *options, folder)
    python = os.path.join(folder, "bin", "python")
    pip = [PYTHON, "-m", "pip", "--python", python]
    run(*pip, "install", "--no-index", "--no-compile", wheel, offline=True, cwd="/")
    return os.path.join(folder, "bin")


def example(bin_folder, name, ranks=2, tree=ROOT):
    """An example under the environment's own `shoal run`; what it printed."""
    python = os.path.join(bin_folder, "python")
    program = os.path.join(tree, "examples", name)
    return run(
        os.path.join(bin_folder, "shoal"), "run", "-n", str(ranks), "--", python, program, cwd="/"
    )
