# SPDX-License-Identifier: Apache-2.0
"""What is kept of mutants: each verdict in the build folder, so that a run goes on where it was
ended, and the scores of rooms in bench/results/mutants.json and mutants.md."""

import json
import os
import subprocess

import workshop

HEAD = (
    "Made by `make mutants`: small faults drawn by seed and put into src/ one at a time; killed: a "
    "test of\ntests/{unit,conformance,sim,proc} noticed. docs/testing.md says how; equivalent "
    "ones, which no test can tell from the\noriginal, stand with their reasons in "
    "tools/mutants/equivalent.txt and are not counted.\n"
)


class Kept:
    """Verdicts by mutant and by what they depend on; a file of JSON lines that only grows."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "tried.jsonl")
        self.known, self.digests = {}, {}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                for line in file:
                    if line.endswith("\n"):  # the last one may have been cut
                        entry = json.loads(line)
                        self.known[entry["key"]] = entry["value"]

    def _add(self, key, value):
        self.known[key] = value
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "value": value}) + "\n")

    def _digest(self, *paths):
        if paths not in self.digests:
            self.digests[paths] = workshop.digest(*paths)
        return self.digests[paths]

    def _key(self, mutant, trial):
        return f"{mutant.name} {self._digest(os.path.join(trial.shop.root, mutant.path))}"

    def _tests(self, mutant, trial):
        programs = {t.command[0] for t in trial.near(mutant.path)}
        return self._digest(*sorted(programs))

    def verdict(self, mutant, trial):
        """What was kept: {} for what is no mutant, None where nothing (that still holds) is."""
        value = self.known.get(self._key(mutant, trial))
        if not value or value["verdict"] != "survived":
            return value
        longer = value.get("limit", trial.options.limit) < trial.options.limit
        return None if longer or value["tests"] != self._tests(mutant, trial) else value

    def add(self, mutant, trial, value):
        if value.get("verdict") == "survived":
            value = {**value, "tests": self._tests(mutant, trial)}
        self._add(self._key(mutant, trial), value)

    def _of_test(self, test):
        return f"seconds {test.name} {self._digest(test.command[0])}"

    def seconds(self, test):
        return self.known.get(self._of_test(test))

    def add_seconds(self, test, seconds):
        self._add(self._of_test(test), seconds)


def commit(root):
    """Of what was tried; with a + where sources or tests have changes."""
    git = ["git", "-C", root]
    head = subprocess.run([*git, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True,
                          check=False)
    changed = subprocess.run([*git, "status", "--porcelain", "--", "src", "tests"],
                             capture_output=True, text=True, check=False)
    if head.returncode != 0:
        return "unknown"
    return head.stdout.strip() + ("+" if changed.stdout else "")


def score(rows):
    """Of a room's rows: what its line in the table says."""
    number = {kind: sum(row["verdict"] == kind for row in rows)
              for kind in ("killed", "survived", "equivalent")}
    tried = number["killed"] + number["survived"]
    percent = round(100 * number["killed"] / tried, 1) if tried else None
    return {**number, "score_percent": percent}


def table(rooms):
    yield "| room | mutants | killed | survived | equivalent | score | seed, commit |"
    yield "|---|---|---|---|---|---|---|"
    for room, of in sorted(rooms.items()):
        tried = of["killed"] + of["survived"]
        percent = "-" if of["score_percent"] is None else f"{of['score_percent']:.1f} %"
        yield (f"| {room} | {tried} | {of['killed']} | {of['survived']} | {of['equivalent']} | "
               f"{percent} | {of['seed']}, {of['commit']} |")


def survivors(rooms):
    yield "| survivor | operator | from | to | why |"
    yield "|---|---|---|---|---|"
    for _, of in sorted(rooms.items()):
        for row in of["survivors"]:
            was, now = (row[key].replace("|", "\\|") for key in ("was", "is"))
            yield (f"| {row['path']}:{row['line']} ({row['name']}) | {row['operator']} | `{was}` | "
                   f"`{now}` | {row['by']} |")


def write(root, results, options):
    """Print the tables; draws of whole rooms are kept in bench/results beside those of others."""
    said = commit(root)
    rooms = {room: {**score(rows), "seed": options.seed, "commit": said,
                    "survivors": [row for row in rows if row["verdict"] == "survived"]}
             for room, rows in results.items()}
    print("\n".join(["", *table(rooms), "", *survivors(rooms)]))
    if options.since or options.only:
        return
    folder = os.path.join(root, "bench", "results")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "mutants.json")
    kept = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
    kept.update(rooms)
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    with open(os.path.join(folder, "mutants.md"), "w", encoding="utf-8") as file:
        file.write("\n".join([HEAD, *table(kept), "", *survivors(kept)]) + "\n")
