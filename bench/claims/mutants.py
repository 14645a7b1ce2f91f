#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Can the claims fail? Each with a planted fault, on a library that has it.

goals.json declares a fault as "mutant": {"file": "src/..", "from": text, "to": text}. It is
compiled and linked below build/claims/mutants with the commands of build/release (make build), and
the claim's quick form, which holds, runs with that library in the place of the original. It has to
miss its goal, or to end with an error; a claim that holds all the same cannot fail. Nothing is
recorded.

Where the claim runs programs of `make check`, which have the library inside, "tests" names them as
ctest does: they are built in build/mutants, where they load it, and the claim takes them from
there (SHOAL_TESTS)."""

import argparse
import os
import sys

import run
from claim import CANNOT, GOALS, ROOT, load

sys.path.insert(0, os.path.join(ROOT, "tools", "mutants"))
import workshop  # noqa: E402

LIMIT_S = 4 * run.QUICK_S  # it is not about time
PLACE = os.path.join(ROOT, "build", "claims", "mutants")


class Shops:
    """Of programs that load the release's library, and of tests that load all of it."""

    def __init__(self):
        self.release = self.tests = None

    def of(self, fault):
        if "tests" not in fault:
            if self.release is None:
                release = os.path.join(ROOT, "build", "release")
                self.release = workshop.Workshop(ROOT, release, PLACE)
                self.release.know()
            return self.release
        if self.tests is None:
            self.tests = workshop.Workshop(ROOT, os.path.join(ROOT, "build", "mutants"))
            self.tests.lock()
        chosen = [t for t in self.tests.configure() if t.name in fault["tests"]]
        self.tests.build(chosen, os.cpu_count())
        os.environ["SHOAL_TESTS"] = os.path.join(self.tests.folder, "tests")
        return self.tests


def plant(shop, fault):
    """The libraries with the fault, in the shop's place."""
    with open(os.path.join(ROOT, fault["file"]), encoding="utf-8") as file:
        text = file.read()
    if fault["from"] not in text:
        raise workshop.Failure(f"{fault['file']} does not hold the text of its fault any more")
    if shop.compile(fault["file"], text.replace(fault["from"], fault["to"])) is None:
        raise workshop.Failure(f"{fault['file']} does not compile with its fault")
    shop.link(fault["file"])


def judged(name, folder=None):
    """What the claim says of the library in folder, or of its own: (noticed, how)."""
    os.environ.pop("LD_LIBRARY_PATH", None)
    if folder is not None:
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
    shops, problems = Shops(), 0
    for name in chosen:
        os.environ.pop("SHOAL_TESTS", None)
        missed, how = judged(name)
        if missed is False:
            shop = shops.of(goals[name]["mutant"])
            plant(shop, goals[name]["mutant"])
            noticed, how = judged(name, shop.place)
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
