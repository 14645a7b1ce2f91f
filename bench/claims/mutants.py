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
there (SHOAL_TESTS). "programs" are those of bench/micro that the claim runs: with the library
inside, too, they are linked anew with the fault (SHOAL_BENCH). Python programs load the library by
its path (SHOAL_LIBRARY); what makes a package takes it from a folder like build/release
(SHOAL_BUILD). A fault in innet/rtl stands in a copy of the hardware, build/claims/mutants-rtl
(SHOAL_RTL).

A claim that misses a goal without a fault, and is recorded so, has to miss another one with it."""

import argparse
import os
import shutil
import sys

import run
from claim import CANNOT, GOALS, RESULTS, ROOT, load, meets

sys.path.insert(0, os.path.join(ROOT, "tools", "mutants"))
import workshop  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "innet", "rtl", "test"))
import mutate  # noqa: E402

LIMIT_S = 4 * run.QUICK_S  # it is not about time
PLACE = os.path.join(ROOT, "build", "claims", "mutants")
HARDWARE = "innet/rtl/"
# What a fault changes of a claim's surroundings.
PLACES = ("LD_LIBRARY_PATH", "SHOAL_LIBRARY", "SHOAL_BUILD", "SHOAL_TESTS", "SHOAL_BENCH",
          "SHOAL_RTL", "WARNINGS")
ERROR = "an error"


class Shops:
    """Of programs that load the release's library, and of tests that load all of it."""

    def __init__(self):
        self.release = self.tests = None

    def of(self, fault):
        if "tests" not in fault:
            if self.release is None:
                release = os.path.join(ROOT, "build", "release")
                self.release = workshop.Workshop(ROOT, release, PLACE)
            self.release.know(fault.get("programs", ()))
            return self.release
        if self.tests is None:
            self.tests = workshop.Workshop(ROOT, os.path.join(ROOT, "build", "mutants"))
            self.tests.lock()
        chosen = [t for t in self.tests.configure() if t.name in fault["tests"]]
        self.tests.build(chosen, os.cpu_count())
        os.environ["SHOAL_TESTS"] = os.path.join(self.tests.folder, "tests")
        return self.tests


def faulty(fault):
    """The text of the fault's file, with it."""
    with open(os.path.join(ROOT, fault["file"]), encoding="utf-8") as file:
        text = file.read()
    if fault["from"] not in text:
        raise workshop.Failure(f"{fault['file']} does not hold the text of its fault any more")
    return text.replace(fault["from"], fault["to"])


def plant_hardware(fault):
    """A copy of the hardware with the fault; a warning of its compiler is no verdict."""
    copy = PLACE + "-rtl"
    shutil.rmtree(copy, ignore_errors=True)
    source = os.path.basename(fault["file"]).removesuffix(".sv")
    step = mutate.tree(copy, source, faulty(fault))
    os.makedirs(os.path.join(copy, "build"))
    os.symlink(os.path.join(ROOT, "build", "release"), os.path.join(copy, "build", "release"))
    os.environ.update(SHOAL_RTL=os.path.dirname(step), WARNINGS="-Wno-fatal")


def build_with(place, release):
    """A folder like build/release whose libraries are those in place."""
    folder = place + "-build"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for entry in os.scandir(release):
        if entry.is_file():
            made = os.path.join(place, ".".join(entry.name.split(".")[:3]))  # named as loaders do
            os.symlink(made if os.path.exists(made) else entry.path,
                       os.path.join(folder, entry.name))
    return folder


def plant(shops, fault):
    """What the claim runs has the fault from now on."""
    if fault["file"].startswith(HARDWARE):
        plant_hardware(fault)
        return
    shop = shops.of(fault)
    if shop.compile(fault["file"], faulty(fault)) is None:
        raise workshop.Failure(f"{fault['file']} does not compile with its fault")
    shop.link(fault["file"])
    beside = os.path.join(shop.place, "innet")  # a library looks there for the kernel's program
    if not os.path.lexists(beside):
        os.symlink(os.path.join(shop.folder, "innet"), beside)
    os.environ["LD_LIBRARY_PATH"] = shop.place
    os.environ["SHOAL_LIBRARY"] = os.path.join(shop.place, "libshoal.so.0")
    os.environ["SHOAL_BUILD"] = build_with(shop.place, shop.folder)
    if "programs" in fault:
        os.environ["SHOAL_BENCH"] = os.path.join(shop.place, "bench")


def judged(name):
    """The figures that miss their goals, and how; None: it cannot be measured on this machine."""
    status, output, _ = run.execute(name, ["--quick"], LIMIT_S)
    result = run.last_json(output)
    if status == CANNOT:
        return None, "cannot be measured on this machine"
    if status is None or status != 0 or result is None:
        why = f"no end within {LIMIT_S} s" if status is None else f"exit status {status}"
        return {ERROR}, f"ends with an error, {why}"
    goals = load(GOALS)[name]["quick"]
    asked = {"value": (result["value"], goals["goal"])}
    for key, goal in goals.get("also", {}).items():
        asked[key] = (result["detail"].get(key), goal)
    missed = {key for key, (value, goal) in asked.items() if not meets(value, goal)}
    told = [f"{run.number(result['value'])} {result['unit']}, {result['goal']}"]
    told += [f"{key} {asked[key][0]}, {asked[key][1]}" for key in sorted(missed - {"value"})]
    return missed, "; ".join(told)


def tried(name, fault, shops, known):
    """What the claim says of its fault: whether all is well, and the line that tells so. known: it
    is recorded that the claim misses."""
    for variable in PLACES:
        os.environ.pop(variable, None)
    before, how = judged(name)
    if before is None:
        return True, f"not tried: {how}"
    if before and not known or ERROR in before:
        return False, f"MISSES WITHOUT A FAULT: {how}"
    plant(shops, fault)
    after, with_it = judged(name)
    noticed = after is not None and bool(after - before)
    return noticed, f"{'fails' if noticed else 'HOLDS'} with its fault: {with_it} (without: {how})"


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
    shops, problems, recorded = Shops(), 0, load(RESULTS)
    for name in chosen:
        known = not recorded.get(name, {}).get("ok", True)
        well, line = tried(name, goals[name]["mutant"], shops, known)
        problems += not well
        print(f"{name:24} {line}", flush=True)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    try:
        main()
    except workshop.Failure as failure:
        sys.exit(f"mutants.py: {failure}")
