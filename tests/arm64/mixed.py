#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One job of two x86-64 and two 64-bit ARM ranks, over TCP on loopback: every rank ends with the
same bits, and they are those of a job of four x86-64 ranks; every codec makes the same bytes of the
same floats on both. ARM runs under qemu's user mode.

    tests/arm64/mixed.py build/dev build/arm64 build/arm64-root"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

SEED = "20181"
JOB_SECONDS = 540
# Its ranks compute factors by OpenBLAS, which rounds on each kind of CPU in its own way: with
# ARM among them the sum is another one, though as good.
OWN_ROUNDING = ("powersgd",)


def fail(text):
    print(f"mixed: {text}")
    sys.exit(1)


def output(command):
    """What a command prints; its failure ends the test."""
    env = dict(os.environ, SHOAL_TEST_SEED=SEED)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=JOB_SECONDS, check=False, env=env
    )
    if done.returncode != 0:
        fail(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
    return done.stdout


def digests(command):
    return [line for line in output(command).splitlines() if " values " in line]


def check_bytes(native, arm):
    """Golden by each other: the bytes and what they decode to."""
    here, there = digests([*native, "bytes"]), digests([*arm, "bytes"])
    if not here or len(here) != len(there):
        fail(f"{len(here)} digests of x86-64, {len(there)} of ARM")
    different = [f"  x86-64 {a}\n  ARM    {b}" for a, b in zip(here, there) if a != b]
    if different:
        fail(f"{len(different)} of {len(here)} encodings differ:\n" + "\n".join(different[:10]))
    print(f"mixed: {len(here)} encodings and decodings, the same bits on x86-64 and ARM")


def sums(shoal, script, ranks):
    """{(promise, codec, floats): {rank: digest}}, and which kernels the ranks ran."""
    text = output([shoal, "run", "-n", str(ranks), "--", script])
    found = {}
    for rank, promise, codec, floats, digest in re.findall(
        r"^rank (\d+) (lossless|lossy) (\S+) floats (\d+): sum (\w+)$", text, re.M
    ):
        found.setdefault((promise, codec, floats), {})[int(rank)] = digest
    return found, dict(re.findall(r"^rank (\d+) kernels (\w+)$", text, re.M))


def check_kernels(kernels):
    arm = {rank for rank, name in kernels.items() if name == "neon"}
    if arm != {"1", "3"}:
        fail(f"ranks 1 and 3 have to be ARM's; kernels: {kernels}")


def check_jobs(shoal, native_script, mixed_script):
    alone, _ = sums(shoal, native_script, 4)
    mixed, kernels = sums(shoal, mixed_script, 4)
    check_kernels(kernels)
    if set(alone) != set(mixed) or not alone:
        fail(f"{len(alone)} sums of one kind of rank, {len(mixed)} of two")
    lossless = 0
    for what, ranks in mixed.items():
        if len(ranks) != 4:
            fail(f"{' '.join(what)}: ranks {sorted(ranks)} only")
        if len(set(ranks.values())) != 1:
            fail(f"{' '.join(what)}: the ranks differ: {ranks}")
        if what[1] not in OWN_ROUNDING and ranks[0] != alone[what][0]:
            fail(f"{' '.join(what)}: {ranks}, and {alone[what]} without ARM")
        lossless += what[0] == "lossless"
    if lossless == 0:
        fail("no lossless codec was tried")
    print(
        f"mixed: {len(mixed)} all-reduces of 2 x86-64 and 2 ARM ranks, {lossless} lossless: "
        f"the same bits on all ranks, and as of 4 x86-64 ranks ({', '.join(OWN_ROUNDING)}: not)"
    )


def write_script(folder, name, lines):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(["#!/bin/sh", *lines]) + "\n")
    os.chmod(path, 0o700)
    return path


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__.rsplit("\n", 1)[-1])
    here, there, root = (os.path.abspath(path) for path in sys.argv[1:])
    qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if qemu is None:
        fail("no qemu-aarch64 (packages-arm64.txt)")
    native, arm = [f"{here}/tests/mixed_rank"], [qemu, "-L", root, f"{there}/tests/mixed_rank"]
    check_bytes(native, arm)
    job = "job tcp:shm=off"
    with tempfile.TemporaryDirectory(prefix="shoal-mixed-") as folder:
        alone = write_script(folder, "alone", [f"exec {' '.join(native)} {job}"])
        choice = [
            'case "$RANK" in',
            f"1 | 3) exec {' '.join(arm)} {job} ;;",
            f"*) exec {' '.join(native)} {job} ;;",
            "esac",
        ]
        check_jobs(f"{here}/shoal", alone, write_script(folder, "mixed", choice))


if __name__ == "__main__":
    main()
