# SPDX-License-Identifier: Apache-2.0
"""Random faults on training runs in the lab, and what must be true after each of them."""

import concurrent.futures
import glob
import os
import random
import shutil
import subprocess
import tempfile

import lose

KINDS = ("kill", "pause", "stop", "cut")
EPOCHS = 2
LAST_STEP = 45  # of 62: the others have to make steps afterwards


class Cannot(Exception):
    """This machine can make no lab."""


def one(data, fault, victim, step, seed):
    """A run with one fault; the violations, as sentences."""
    what = f"{fault} of rank {victim} at step {step}, --seed {seed}"
    try:
        found = lose.trial(data, EPOCHS, fault, victim, seed, after_steps=step)
    except lose.Broken as failed:
        return [str(failed)]
    except subprocess.TimeoutExpired:
        return [f"{what}: the run does not end"]
    bad = []
    if found["unaccounted"]:
        bad.append(f"{what}: {found['unaccounted']} samples lost or taken twice")
    if found["replicas_differ"]:
        bad.append(f"{what}: replicas differ in {found['replicas_differ']} epochs' results")
    return bad


def processes():
    """Ids of this command's processes."""
    found = set()
    for path in glob.glob("/proc/[0-9]*/exe"):
        try:
            if os.readlink(path).split(" ")[0] == lose.SHOAL:
                found.add(path.split("/")[2])
        except OSError:
            pass  # it has ended, or is another user's
    return found


def things():
    """What a run could leave behind, processes apart."""
    return set(glob.glob("/dev/shm/shoal*")) | set(glob.glob("/tmp/shoal-lose-*"))


def run(seed, faults, at_once=1, say=lambda text: None):
    """So many runs with one fault each: {"faults", "kinds", "violations"}."""
    if not os.path.exists(lose.SHOAL):
        raise Cannot("build/release/shoal is not built: make build")
    draw, kinds, before = random.Random(seed), {}, (processes(), things())
    data = tempfile.mkdtemp(prefix="shoal-soak-")
    violations = []
    try:
        lose.make_data(data)
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            runs = []
            for i in range(faults):
                kind = KINDS[i % len(KINDS)] if faults <= len(KINDS) else draw.choice(KINDS)
                kinds[kind] = kinds.get(kind, 0) + 1
                victim, step = draw.randrange(lose.RANKS), draw.randrange(2, LAST_STEP)
                runs.append(pool.submit(one, data, kind, victim, step, seed + i))
            for i, done in enumerate(runs):
                violations += done.result()
                say(f"{i + 1} of {faults} faults, {len(violations)} violations")
    except OSError as reason:
        raise Cannot(str(reason)) from reason
    finally:
        shutil.rmtree(data, ignore_errors=True)
    left = sorted(processes() - before[0]) + sorted(things() - before[1])
    if left:
        violations.append(f"stays behind: {', '.join(left)}")
    return {"faults": faults, "kinds": kinds, "violations": violations}
