# SPDX-License-Identifier: Apache-2.0
"""A training run of four ranks in the lab that loses one of them: what lose-and-go-on measures and
soak-quick repeats at random."""

import glob
import json
import os
import shutil
import subprocess
import tempfile

import claim

SHOAL = os.path.join(claim.ROOT, "build", "release", "shoal")
RANK = os.path.join(claim.HERE, "lose_rank.py")
RANKS, RATE = 4, 250e6
SAMPLES = 2000


class Broken(Exception):
    """A rank that nobody hurt has failed."""


def make_data(folder):
    subprocess.run(
        [SHOAL, "data", "digits", "--out", folder, "--train", str(SAMPLES), "--test", "1000"],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def lines_of(folder):
    """Lines by file, those of steps and those of reforms."""
    found = {}
    for path in glob.glob(os.path.join(folder, "out", "metrics*.jsonl")):
        with open(path, encoding="utf-8") as file:
            whole = [line for line in file if line.endswith("}\n")]
        found[os.path.basename(path)] = [json.loads(line) for line in whole]
    return found


def unaccounted(files, epochs):
    """Samples that are missing or taken twice, by the rank that was there all the time."""
    longest = max(files.values(), key=lambda lines: sum("at_us" in line for line in lines))
    steps = {line["step"]: line for line in longest if "at_us" in line}  # the later one counts
    at, wrong = 0, 0
    for step in sorted(steps):
        wrong += abs(steps[step]["step_first"] - at)
        at = steps[step]["step_first"] + steps[step]["step_samples"]
    return wrong + abs(SAMPLES * epochs - at)


def trial(data, epochs, fault, victim, seed, after_steps=12):
    """One run: {"still_s", "contributes_s", "state_share", "unaccounted", "accuracy"}."""
    folder = tempfile.mkdtemp(prefix="shoal-lose-")
    out = os.path.join(folder, "out")
    train = "train --model hdc --batch 16 --lr 0.02 --compute-ms 20 --on-loss reform --quiet"
    argv = [SHOAL, *train.split(), "--data", data, "--epochs", str(epochs), "--out", out]
    plan = {
        "argv": argv + ["--seed", str(seed)],
        "victim": victim,
        "fault": fault,
        "after_steps": after_steps,
        "again_s": 4 if fault == "pause" else 2,
    }
    doors = ",".join(f"10.77.0.{i + 1}:29402" for i in range(RANKS))
    run = f"run -n {RANKS} --lab rate=250mbit --grace 90 --"
    try:
        with open(os.path.join(folder, "plan.json"), "w", encoding="utf-8") as file:
            json.dump(plan, file)
        job = subprocess.run(
            [SHOAL, *run.split(), RANK, folder],
            env={**os.environ, "SHOAL_DOORS": doors},
            timeout=300,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if job.returncode == claim.CANNOT:
            raise OSError(job.stderr.strip())
        return measure(folder, epochs, fault, victim, job)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(folder, epochs, fault, victim, job):
    reports, files = [], lines_of(folder)
    for rank in range(RANKS):
        with open(os.path.join(folder, f"{rank}.json"), encoding="utf-8") as file:
            reports.append(json.load(file))
    bad = [
        r
        for r in range(RANKS)
        if reports[r]["exit"] != 0 and not (r == victim and fault in ("stop", "cut", "pause"))
    ]
    if bad:
        raise Broken(f"{fault} of rank {victim}: ranks {bad} failed: {job.stderr}")
    last = {}
    for lines in files.values():
        for line in lines:
            if "epoch" in line and "test_loss" in line:
                values = (line["test_loss"], line["test_accuracy"])
                last.setdefault(line["epoch"], set()).add(values)
    ends = [line["test_accuracy"] for lines in files.values() for line in lines if "epoch" in line]
    result = {"unaccounted": unaccounted(files, epochs), "accuracy": ends and max(ends) or 0}
    result["replicas_differ"] = sum(len(values) - 1 for values in last.values())
    if fault is None:
        return result
    fault_at, own = reports[victim]["fault_at"], f"metrics.{victim}.jsonl"
    own = "metrics.jsonl" if victim == 0 else own
    nexts = []
    for name, lines in files.items():
        reforms = [i for i, line in enumerate(lines) if "reform" in line]
        if name != own and name.count(".") < 3 and reforms:
            nexts += [line["at_us"] * 1e-6 for line in lines[reforms[0] :] if "at_us" in line][:1]
    if nexts:  # else it was over, or nobody missed the victim
        result["still_s"] = max(nexts) - fault_at
    late = [lines for name, lines in files.items() if name.count(".") == 3]
    if fault == "kill" and late:
        state = next(line for line in late[0] if "reform" in line)
        first = next(line["at_us"] * 1e-6 for line in late[0] if "at_us" in line)
        result["contributes_s"] = first - reports[victim]["again_at"] - state["state_us"] * 1e-6
        result["state_share"] = 100 * state["state_bytes"] * 8e6 / state["state_us"] / RATE
    return result
