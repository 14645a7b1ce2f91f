# SPDX-License-Identifier: Apache-2.0
"""The pages that are made of goals and results: the headlines in README.md, every claim with its
host and its earlier values in docs/results.md, every figure in bench/results/claims.md."""

import json
import os

from claim import ROOT, meets

DETAILS = os.path.join(ROOT, "bench", "results", "claims.md")
ALL = os.path.join(ROOT, "docs", "results.md")
README = os.path.join(ROOT, "README.md")
BEGIN, END = "<!-- claims: made by bench/claims/run.py -->", "<!-- end of claims -->"
HEADLINES_MAX = 25
EARLIER_MAX = 12
HEAD = ["| claim | what | measured | goal | holds | host | when, commit |",
        "|---|---|---|---|---|---|---|"]  # fmt: skip
VECTORS = (("avx512f", "AVX-512"), ("avx2", "AVX2"))

INTRODUCTION = """# What is measured

Made by `bench/claims/run.py` from `bench/results/claims.json`; do not edit. As in the README, for
every claim: each is a program in `bench/claims/`, and every figure of its last run stands in
[bench/results/claims.md](../bench/results/claims.md). Host: cores and vector instructions. Stale:
files that the figure runs through have changed since, or the history does not hold its commit.
"""


def number(value):
    return f"{value:.4g}" if isinstance(value, (int, float)) else str(value)


def host(result):
    """Cores and instruction set of the machine that measured."""
    machine = result.get("detail", {}).get("machine")
    if not isinstance(machine, dict):
        return "?"
    known = machine.get("isa", "").split()
    vectors = next((name for flag, name in VECTORS if flag in known), "SSE2")
    return f"{machine.get('cores', '?')} x {vectors}"


def row(name, entry, result):
    goals = entry["full"]
    limit = f"{goals['goal']} {goals['unit']}"
    if result is None:
        return f"| `{name}` | {entry['what']} | not measured | {limit} | - | - | - |"
    holds = "yes" if result["ok"] else "**no**"
    when = f"{result['date']}, {result['commit']}" + (", stale" if result.get("stale") else "")
    return (f"| `{name}` | {entry['what']} | {number(result['value'])} {result['unit']} | {limit} "
            f"| {holds} | {host(result)} | {when} |")


def headlines(goals):
    return [name for name in sorted(goals) if goals[name].get("headline")]


def table(goals, results, names):
    return HEAD + [row(name, goals[name], results.get(name)) for name in names] if names else []


def short(result):
    """What of a result is remembered once there is a newer one."""
    return {"date": result["date"], "commit": result["commit"], "value": result["value"],
            "ok": result["ok"], "host": result.get("host") or host(result)}  # fmt: skip


def remembered(old):
    """The earlier results of a claim, the one that is replaced now last."""
    return [*old.get("earlier", []), short(old)][-EARLIER_MAX:] if old else []


def history(goals, results):
    """A row per earlier result, the newest first, of claims that have been measured again."""
    out = ["", "## Earlier results", ""]
    out += ["Verdicts are those of their day; goals may have changed since.", ""]
    out += ["| claim | when, commit | host | measured | held |", "|---|---|---|---|---|"]
    for name in sorted(set(goals) & set(results)):
        unit = results[name]["unit"]
        for old in reversed(results[name].get("earlier", [])):
            held = "yes" if old["ok"] else "no"
            out.append(f"| `{name}` | {old['date']}, {old['commit']} | {old['host']} "
                       f"| {number(old['value'])} {unit} | {held} |")
    return out


def details(goals, results):
    """One section per claim with every figure and the command."""
    out = ["# Claims: every figure", "",
           "Made by `bench/claims/run.py` from `claims.json`; do not edit. "
           "The table: docs/results.md."]  # fmt: skip
    for name in sorted(set(goals) & set(results)):
        result = results[name]
        out += ["", f"## {name}", "", f"`{result['command']}`, seed {result['seed']}, "
                f"{result['seconds']} s", ""]
        if result.get("stale"):
            out += [f"Stale: {result['stale']}.", ""]
        out += ["```json", json.dumps(result["detail"], indent=1, sort_keys=True), "```"]
        for key, goal in sorted(goals[name]["full"].get("also", {}).items()):
            value = result["detail"].get(key)
            held = "holds" if meets(value, goal) else "**missed**"
            out.append(f"\n{key}: {number(value)}, goal {goal}: {held}")
    return out


def documents(goals, results):
    """{path: text} of what is made from goals and results."""
    page = [INTRODUCTION, *table(goals, results, sorted(goals)), *history(goals, results)]
    made = {DETAILS: "\n".join(details(goals, results)) + "\n", ALL: "\n".join(page) + "\n"}
    if os.path.exists(README):
        with open(README, encoding="utf-8") as file:
            text = file.read()
        if BEGIN in text and END in text:
            before, rest = text.split(BEGIN, 1)
            after = rest.split(END, 1)[1]
            chosen = table(goals, results, headlines(goals))
            made[README] = "\n".join([before + BEGIN, *chosen, END]) + after
    return made
