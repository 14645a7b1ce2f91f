#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make docs/combinations.md from what the command says of itself: `shoal list combinations`.

    tools/make_combinations.py build/release/shoal           write the page
    tools/make_combinations.py --check build/dev/shoal       fail if the page says something else"""

import argparse
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "combinations.md")
TITLES = {
    ("syncs", "codecs"): "Protocols and codecs (`--sync`, `--codec`)",
    ("syncs", "collectives"): "Protocols and collectives (`--sync`, `--collective`)",
    ("codecs", "collectives"): "Codecs and collectives (`--codec`, `--collective`)",
    ("options", "syncs"): "Other options and protocols",
    ("options", "options"): "Other options among themselves",
}
HEAD = """\
# What goes together

<!-- made by tools/make_combinations.py; a test compares -->

An option is honoured or refused, never ignored. What does not go together is refused with exit code
2 before anything starts, in a sentence that names both options. The tables are what `shoal list
combinations` prints, at default keys; keys can change the answer, and `shoal train ... --dry-run`
gives it for a whole command line. In C: `shoal_job_check` (`include/shoal/job.h`). `make combos`
(docs/testing.md) runs every two options that go together in one job.
"""


def told(shoal):
    done = subprocess.run([shoal, "list", "combinations", "--json"], capture_output=True,
                          text=True, timeout=60, check=True)
    return json.loads(done.stdout)["combinations"]


def table(of, pairs):
    """Rows down, columns across; an x where the two go together."""
    down = list(dict.fromkeys(pair["names"][0] for pair in pairs))
    across = list(dict.fromkeys(pair["names"][1] for pair in pairs))
    good = {tuple(pair["names"]) for pair in pairs if pair["together"]}
    lines = [f"## {TITLES[of]}", "", "| | " + " | ".join(f"`{a}`" for a in across) + " |",
             "|---" * (len(across) + 1) + "|"]
    for d in down:
        cells = ("x" if (d, a) in good else "" for a in across)
        lines.append(f"| `{d}` | " + " | ".join(cells) + " |")
    return lines + [""]


def reasons(pairs):
    """The refusals, one line each; the same sentence of many codecs once."""
    seen = {}
    for pair in pairs:
        if not pair["together"] and ": " in pair["why"]:
            names = [f"`{name}`" for name in pair["names"]]
            seen.setdefault(tuple(sorted(names)), pair["why"])
    return [f"- {' with '.join(names)}: {why}" for names, why in seen.items()]


def page(shoal):
    combinations = told(shoal)
    lines = [HEAD]
    for of in TITLES:
        pairs = [pair for pair in combinations if tuple(pair["of"]) == of]
        lines += table(of, pairs)
        if of[0] == "options":
            lines += ["Why not:", "", *reasons(pairs), ""]
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shoal")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    text = page(args.shoal)
    if not args.check:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    with open(PAGE, encoding="utf-8") as file:
        if file.read() == text:
            return 0
    print(f"{PAGE} is not what the command says: tools/make_combinations.py build/release/shoal")
    return 1


if __name__ == "__main__":
    sys.exit(main())
