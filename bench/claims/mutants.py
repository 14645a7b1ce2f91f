#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Can the claims fail? Each with a planted fault, on a library that has it.

goals.json declares a fault as "mutant": {"file": "src/..", "from": text, "to": text}. It is
compiled and linked below build/claims/mutants with the commands of build/release (make build), and
the claim's quick form, which holds, runs with that library in the place of the original. It has to
miss its goal, or to end with an error; a claim that holds all the same cannot fail. Nothing is
recorded."""

import argparse
import os
import sys

import run
from claim import CANNOT, GOALS, ROOT, load

sys.path.insert(0, os.path.join(ROOT, "tools", "mutants"))
import workshop  # noqa: E402

RELEASE = os.path.join(ROOT, "build", "release")
LIMIT_S = 4 * run.QUICK_S  # it is not about time
PLACE = os.path.join(ROOT, "build", "claims", "mutants")


def plant(shop, fault):
    """The libraries with the fault, in the shop's place."""
    with open(os.path.join(ROOT, fault["file"]), encoding="utf-8") as file:
        text = file.read()
    if shop.compile(fault["file"], text.replace(fault["from"], fault["to"])) is None:
        raise workshop.Failure(f"{fault['file']} does not compile with its fault")
    shop.link(fault["file"])


def judged(name, folder):
    """What the claim says of the library in folder: (noticed, how)."""
    os.environ["LD_LIBRARY_PATH"] = folder
    status, output, _ = run.execute(name, ["--quick"], LIMIT_S)
    result = run.last_json(output)
    if status == CANNOT:
        return None, "cannot be measured on this machine"
    if status is None or status != 0 or result is None:
        return True, "ends with an error"
    return not result["ok"], f"{run.number(result['value'])} {result['unit']}, {result['goal']}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these claims")
    options = parser.parse_args()
    goals = load(GOALS)
    chosen = options.only or sorted(name for name in goals if "mutant" in goals[name])
    for name in chosen:
        if "mutant" not in goals.get(name, {}) or "quick" not in goals[name]:
            sys.exit(f"claim {name} has no fault and quick form in goals.json: add \"mutant\"")
    shop = workshop.Workshop(ROOT, RELEASE, PLACE)
    shop.know()
    problems = 0
    for name in chosen:
        missed, how = judged(name, RELEASE)
        if missed is False:
            plant(shop, goals[name]["mutant"])
            noticed, how = judged(name, PLACE)
            verdict = "fails with its fault" if noticed else "HOLDS WITH ITS FAULT"
            problems += not noticed
        else:
            verdict = "MISSES WITHOUT A FAULT" if missed else "not tried"
            problems += missed is True
        print(f"{name:24} {verdict}: {how}", flush=True)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    try:
        main()
    except workshop.Failure as failure:
        sys.exit(f"mutants.py: {failure}")
