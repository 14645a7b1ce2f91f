#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make check-frameworks: the Python tests with the newest PyTorch of the Python index, with
Lightning, Accelerate and Transformers, and PyTorch's own distributed suite.

check.py BUILD-FOLDER FOLDER-OF-THE-ENVIRONMENT. Packages are those of packages-frameworks.txt. What
cannot be had (no network, no package of this Python) is skipped, with its reason, and counted so.
The last line is `N passed, N failed, N skipped`."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import no_cuda

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "packages-frameworks.txt"
TESTS = ROOT / "python" / "tests"
LIMIT_S = 1200  # of one file of tests; ray_test starts clusters
SUITE_S = 700


def packages():
    """What pip is to install, as it wants it."""
    for line in LIST.read_text().splitlines():
        name = line.split("#")[0].split()
        if name:
            yield name[0]


def install(folder):
    """The environment's Python, or a reason why there is none."""
    python, mark = folder / "bin" / "python", folder / "packages-frameworks.txt"
    if mark.exists() and mark.read_text() == LIST.read_text():
        return python, None
    venv = [sys.executable, "-m", "venv", str(folder)]
    made = subprocess.run(venv, capture_output=True, text=True)
    if made.returncode != 0:
        return None, f"python3 -m venv: {last(made.stdout + made.stderr)}"
    pip = [str(python), "-m", "pip", "install", "-q", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run(pip + list(packages()), capture_output=True, text=True)
    if done.returncode != 0:
        return None, f"pip: {last(done.stderr)}"
    torch = next(folder.glob("lib/python3*/site-packages/torch/lib"))
    print(f"stand-ins for {', '.join(no_cuda.make(torch))}", flush=True)
    probe = "import torch; print(torch.__version__)"
    works = subprocess.run([str(python), "-c", probe], capture_output=True, text=True)
    if works.returncode != 0:
        return None, f"import torch: {last(works.stderr)}"
    print(f"PyTorch {works.stdout.strip()}", flush=True)
    mark.write_text(LIST.read_text())
    return python, None


def last(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason given"


def run(python, build, file, *options, limit=LIMIT_S):
    """(outcome, seconds, what it printed) of one file of tests."""
    environment = dict(
        os.environ,
        SHOAL=str(build / "shoal"),
        SHOAL_BUILD=str(build),
        SHOAL_LIBRARY=str(build / "libshoal.so"),
        PYTHONPATH=str(ROOT / "python"),
        PYTHONDONTWRITEBYTECODE="1",
        OMP_NUM_THREADS="1",
        PATH=f"{python.parent}:{os.environ['PATH']}",
    )
    begin = time.monotonic()
    try:
        done = subprocess.run(
            [str(python), str(file), *options],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=limit,
        )
        code, printed = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code, printed = 1, f"{late.stdout or ''}\nno end within {limit} s"
    outcome = {0: "passed", 77: "skipped"}.get(code, "failed")
    return outcome, time.monotonic() - begin, printed


def build_helper(build):
    """The program that cli/gpt2_weights_test asks for a net's scores; a release build has no tests.
    Without it that test fails, and says what is missing."""
    for tests in ("ON", None, "OFF"):
        command = ["cmake", "--build", str(build), "--target", "net_scores"]
        if tests:
            command = ["cmake", "-S", str(ROOT), "-B", str(build), f"-DSHOAL_TESTS={tests}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{' '.join(command)}: {last(done.stdout + done.stderr)}", flush=True)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1].split(".")[0])
    build, folder = (Path(name).resolve() for name in sys.argv[1:])
    files = [(file, ()) for file in sorted(TESTS.glob("*_test.py"))]
    files.append((ROOT / "tests" / "cli" / "tensorboard_test.py", ()))
    files.append((ROOT / "tests" / "cli" / "data_text_test.py", ()))
    files.append((ROOT / "tests" / "cli" / "gpt2_weights_test.py", ()))
    files.append((ROOT / "tests" / "cli" / "bert_weights_test.py", ()))
    files.append((ROOT / "tests" / "cli" / "minilm_test.py", ()))
    files.append((ROOT / "tests" / "cli" / "onnx_test.py", ()))
    files.append((ROOT / "tests" / "cli" / "wordpiece_test.py", ()))
    files.append((TESTS / "suite" / "distributed_suite.py", ("--limit", str(SUITE_S - 60))))
    python, reason = install(folder)
    if python:
        build_helper(build)
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for file, options in files:
        outcome, seconds, printed = "skipped", 0.0, reason
        if python:
            limit = SUITE_S if options else LIMIT_S
            outcome, seconds, printed = run(python, build, file, *options, limit=limit)
        count[outcome] += 1
        print(f"{outcome} {file.stem} ({seconds:.0f} s)", flush=True)
        if outcome == "failed":
            print(printed[-6000:])
        elif outcome == "skipped":
            print(f"    {last(printed)}")
        for line in re.findall(r"^(?:suite: .*|\S+_ddp.py: .*)$", printed or "", re.M):
            print(f"    {line}", flush=True)
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    sys.exit(1 if count["failed"] else 0)


if __name__ == "__main__":
    main()
