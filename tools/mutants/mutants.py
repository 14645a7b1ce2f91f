#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Put small faults into src/, one at a time, and see whether a test notices.

Mutants are drawn by a seed from rooms, or from the files changed since a commit; what compiles to
the same code is drawn again. Each is linked into a library in build/mutants, which the tests load:
the tree itself is never written to, except for bench/results. A mutant is tried with the tests of
its file, then those of its room, then all of tests/{unit,conformance,sim,proc} that include a
header of the room; the first failure ends it. What was tried is kept and not tried again while its
file (for a survivor: and the tests, and a limit that it ran into) are the same, so that a run may
be ended and go on later.

Exit status: 0, whatever survives; 1 on errors; 2 for wrong arguments."""

import argparse
import os
import random
import signal
import sys

import operators
import report
import workshop

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", default="", help="rooms of src/, by commas (default: all)")
    parser.add_argument("--since", metavar="COMMIT", help="only files changed since COMMIT")
    parser.add_argument("--number", type=int, default=20, metavar="N",
                        help="mutants a room, or of all changed files (default: 20)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the draw (default: 1)")
    parser.add_argument("--limit", type=int, default=240, metavar="SECONDS",
                        help="for all tests of one mutant (default: 240)")
    parser.add_argument("--jobs", type=int, default=1, help="of the first build (default: 1)")
    parser.add_argument("--only", metavar="NAME", help="one mutant by the name that the list gives")
    parser.add_argument("--check", action="store_true",
                        help="only check that equivalent.txt names mutants that there are")
    parser.add_argument("--root", default=ROOT, help="tree (default: this one)")
    return parser.parse_args()


def room_of(path):
    return path.split("/")[1]


def sources(root, options):
    """The C files of src/ that were asked for, by room."""
    command = ["git", "-C", root, "diff", "--name-only", options.since or "HEAD", "--", "src"]
    if options.since:
        paths = [p for p in workshop.told(command).split() if os.path.isfile(f"{root}/{p}")]
    else:
        paths = operators.tree.files(root, (".c",), "src")
    rooms = {}
    for path in paths:
        if path.endswith(".c") and path.count("/") > 1:
            rooms.setdefault(room_of(path), []).append(path)
    wanted = [r for r in options.room.split(",") if r]
    for room in wanted:
        if room not in rooms and not options.since:
            raise workshop.Failure(f"there is no room {room}: they are {', '.join(sorted(rooms))}")
    return {room: found for room, found in sorted(rooms.items()) if room in wanted or not wanted}


def draws(root, paths, seed, room):
    """The room's mutants in the order of the draw: an operator first, so each has its share."""
    kinds = {}
    for path in paths:
        for mutant in operators.mutants(path, operators.tree.read(root, path)):
            kinds.setdefault(mutant.operator, []).append(mutant)
    chance = random.Random(f"{seed} {room}")
    while kinds:
        kind = chance.choice(sorted(kinds))
        yield kinds[kind].pop(chance.randrange(len(kinds[kind])))
        if not kinds[kind]:
            del kinds[kind]


class Trial:
    """Mutants of one workshop, tried one after the other."""

    def __init__(self, shop, tests, options, kept):
        self.shop, self.tests, self.options, self.kept = shop, tests, options, kept
        self.originals = {}
        self.exempt, _ = operators.tree.exemptions(shop.root, "tools/mirror_exempt.txt")

    def near(self, path):
        """Tests that may notice a fault in path: those of the file (by name or by the reason why it
        has none), of its room, and whatever includes the room's headers; then the quickest."""
        mirror = path.replace("src/", "unit/", 1).removesuffix(".c") + "_test"
        room, found = room_of(path), []
        for test in self.tests:
            name = test.source
            reads = self.shop.reads(f"tests/{name}.c")
            if name == mirror or name.split("/")[-1] in self.exempt.get(path, ""):
                found.append((0, test))
            elif name.startswith(f"unit/{room}/"):
                found.append((1, test))
            elif any(read.startswith(f"src/{room}/") for read in reads):
                found.append((2 + workshop.FOLDERS.index(name.split("/")[0]), test))
        return [test for _, test in sorted(found, key=lambda f: (f[0], f[1].seconds or 0))]

    def build(self, paths):
        """What may notice a fault in these files."""
        needed = {t for path in paths for t in self.near(path)}
        self.shop.build(sorted(needed, key=lambda t: t.name), self.options.jobs)

    def usable(self, test):
        """How long a test takes without a mutant is kept; one that fails is left out this time."""
        if test.seconds is None:
            test.seconds = self.kept.seconds(test)
        if test.seconds is None:
            verdict, seconds = self.shop.run(test, workshop.TEST_S, original=True)
            if verdict == "passed":
                self.kept.add_seconds(test, seconds)
            else:
                print(f"{test.name}: {verdict} without a mutant, left out", flush=True)
            test.seconds = seconds if verdict == "passed" else -1
        return test.seconds >= 0

    def noticed(self, test, verdict):
        """The fault has failed the test, and not a busy machine: without it, the test passes now,
        and soon."""
        if verdict not in ("failed", "hung"):
            return False
        again, took = self.shop.run(test, test.limit(), original=True)
        return again == "passed" and (verdict == "failed" or 3 * took <= test.limit())

    def same_code(self, mutant, text, made):
        if mutant.path not in self.originals:
            self.originals[mutant.path] = self.shop.compile(mutant.path, text)
        return made == self.originals[mutant.path]

    def one(self, mutant):
        """What became of it, as it is kept; None: it is none (no code, or the same)."""
        text = operators.tree.read(self.shop.root, mutant.path)
        known = self.kept.verdict(mutant, self)
        if known is not None:
            return known or None
        self.same_code(mutant, text, None)
        made = self.shop.compile(mutant.path, mutant.apply(text))
        if made is None or self.same_code(mutant, text, made):
            self.kept.add(mutant, self, {})
            return None
        self.shop.link(mutant.path)
        left, result = self.options.limit, {"verdict": "survived", "by": ""}
        for test in filter(self.usable, self.near(mutant.path)):
            if left < test.limit():
                result |= {"by": f"not all tests in {self.options.limit} s",
                           "limit": self.options.limit}
                break
            verdict, seconds = self.shop.run(test, test.limit())
            left -= seconds
            if self.noticed(test, verdict):
                result = {"verdict": "killed", "by": test.name + (" (hung)" * (verdict == "hung"))}
                break
        result["seconds"] = round(self.options.limit - left, 1)
        self.kept.add(mutant, self, result)
        return result


def try_room(trial, room, paths, equivalent):
    """Rows of one room: N mutants that count, those known as equivalent beside them."""
    rows = []
    for mutant in draws(trial.shop.root, paths, trial.options.seed, room):
        if sum(row["verdict"] != "equivalent" for row in rows) >= trial.options.number:
            break
        if trial.options.only and mutant.name != trial.options.only:
            continue
        if mutant.name in equivalent:
            result = {"verdict": "equivalent", "by": equivalent[mutant.name]}
        else:
            result = trial.one(mutant)
        if result is None:
            continue
        rows.append({"name": mutant.name, "path": mutant.path, "line": mutant.line,
                     "operator": mutant.operator, "was": mutant.shown, "is": mutant.changed,
                     **result})
        print(f"{mutant.name} {mutant.path}:{mutant.line} {mutant.operator}: "
              f"{result['verdict']} {result['by']}", flush=True)
    return rows


def equivalents(root):
    """({name: reason}, problems) of tools/mutants/equivalent.txt."""
    listed, problems = operators.tree.exemptions(root, "tools/mutants/equivalent.txt")
    named = {reason.split(" ")[0] for reason in listed.values()}
    there = set()
    for path in named & set(operators.tree.files(root, (".c",), "src")):
        there |= {m.name for m in operators.mutants(path, operators.tree.read(root, path))}
    problems += [f"equivalent.txt: {name} is no mutant (any more)" for name in sorted(listed)
                 if name not in there]
    return listed, problems


def run(options):
    root = os.path.abspath(options.root)
    equivalent, problems = equivalents(root)
    if options.check:
        operators.tree.finish(problems, f"{len(equivalent)} mutants are equivalent")
    folder = os.path.join(root, "build", "mutants")
    shop = workshop.Workshop(root, folder)
    rooms = sources(root, options)
    if not rooms:
        raise workshop.Failure("no source of src/ changed")
    shop.lock()
    tests = shop.configure()
    rooms = {room: [p for p in paths if p in shop.commands] for room, paths in rooms.items()}
    trial = Trial(shop, tests, options, report.Kept(folder))
    for room, paths in rooms.items():
        trial.build(paths)
        report.write(root, {room: try_room(trial, room, paths, equivalent)}, options)


def main():
    options = arguments()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # also where a shell has it ignored
    if options.number < 1 or options.limit < 1 or options.jobs < 1:
        sys.exit("mutants.py: N, SECONDS and JOBS are at least 1")
    try:
        run(options)
    except KeyboardInterrupt:
        print("ended; the same command goes on where this one stopped", flush=True)
        sys.exit(130)
    except workshop.Failure as failure:
        print(f"mutants.py: {failure}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
