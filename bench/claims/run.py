#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the claims of bench/claims, keep what they measure, write bench/results/claims.md.

A claim is an executable here without suffix. It prints tables as it likes and, last, one line of
JSON. Results of full runs are kept in bench/results/claims.json, of clean trees only; claims.md,
docs/results.md and the headlines in README.md are made from them (tables.py). A row is stale when a
file that it depends on (goals.json) has changed since its commit, or when the history does not hold
that commit. --verify measures nothing: it checks that programs, goals, results and tables agree,
decides each verdict anew, and finds rows that are stale and do not say so."""

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys

import sources
from claim import (CANNOT, GOALS, HERE, NO_QUICK, RESULTS, ROOT, load, machine, meets,
                   verdict)
from tables import HEADLINES_MAX, documents, headlines, number, remembered

KEYS = ("claim", "value", "unit", "goal", "ok", "detail", "command", "seed")
CLEAN_UP_S = 10  # what a claim that took too long gets to take its things away
QUICK_S = 60  # a quick run answers within 40 s; what takes longer than this is broken


def programs():
    """Executables without suffix in bench/claims."""
    paths = {n: os.path.join(HERE, n) for n in os.listdir(HERE) if "." not in n}
    return sorted(n for n, p in paths.items() if os.path.isfile(p) and os.access(p, os.X_OK))


def last_json(text):
    """The object on the last line that is not empty, or None."""
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        found = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def problem_of(name, goals, result):
    """Why a result cannot be believed, or None."""
    if result is None:
        return "its last line is not JSON"
    missing = [key for key in KEYS if key not in result]
    if missing:
        return f"its result lacks {', '.join(missing)}"
    if result["claim"] != name:
        return f"it answers for {result['claim']}"
    if result["goal"] != goals["goal"]:
        return f"its goal is {result['goal']}, goals.json says {goals['goal']}"
    if bool(result["ok"]) != verdict(goals, result["value"], result["detail"]):
        return "its verdict contradicts its figures"
    return None


def execute(name, arguments, limit_s):
    """Run in a process group of its own; (exit status or None if too slow, output, seconds)."""
    begin = datetime.datetime.now()
    child = subprocess.Popen([os.path.join(HERE, name)] + arguments, cwd=ROOT, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             start_new_session=True)
    try:
        output, _ = child.communicate(timeout=limit_s)
        status = child.returncode
    except subprocess.TimeoutExpired:
        child.terminate()  # it takes its folders and namespaces away
        try:
            child.wait(CLEAN_UP_S)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        output, _ = child.communicate()
        status = None
    return status, output, (datetime.datetime.now() - begin).total_seconds()


def measure(name, entry, quick, seed):
    """One claim: a dictionary with "status" measured, cannot or failed."""
    if quick and "quick" not in entry:
        return {"status": "cannot", "why": NO_QUICK}
    goals = entry["quick" if quick else "full"]
    limit_s = QUICK_S if quick else 60 * goals.get("minutes", 10)
    arguments = ["--quick"] if quick else []
    if seed is not None:
        arguments += ["--seed", str(seed)]
    print(f"== {name} (at most {limit_s:.0f} s)", flush=True)
    status, output, seconds = execute(name, arguments, limit_s)
    print(output, end="", flush=True)
    if status == CANNOT:
        return {"status": "cannot"}
    if status is None:
        return {"status": "failed", "why": f"no answer within {limit_s:.0f} s"}
    result = last_json(output)
    why = f"exit status {status}" if status != 0 else problem_of(name, goals, result)
    if why is not None:
        return {"status": "failed", "why": why}
    return {"status": "measured", "seconds": round(seconds, 1), **result}


def staleness(name, entry, result):
    """Why a kept result no longer speaks of this tree, or None."""
    for commit in result.get("commits") or [result["commit"]]:
        if commit.endswith("+"):
            return "of a tree with changes"
        if not sources.exists(commit):
            return "its commit is not in the history"
        changed = sources.changed(name, commit, entry)
        if changed is not None:
            return f"{changed} has changed since"
    return None


def entry_problems(name, entry):
    for part in ("full", "quick") if "quick" in entry else ("full",):
        asked = entry.get(part, {})
        for goal in [asked.get("goal"), *asked.get("also", {}).values()]:
            try:
                meets(0.0, goal)
            except (AttributeError, KeyError, ValueError):
                yield f'goals.json: {name}: {part} goal {goal!r} is not like ">= 0.95"'
        if "unit" not in asked:
            yield f"goals.json: {name}: {part} has no unit"
    if not entry.get("what"):
        yield f'goals.json: {name}: "what" is missing'
    if not entry.get("depends"):
        yield f'goals.json: {name}: "depends" is missing: the files that it runs through'
    if not sources.files(sources.depends(name, entry)):
        yield f"goals.json: {name}: depends on no file that there is"
    for word in entry.get("depends", ()):
        if word.startswith("@") and word not in sources.GROUPS:
            yield f"goals.json: {name}: no group {word} in sources.py"


def fault_problems(name, entry):
    """A planted fault (mutants.py) has one place."""
    fault = entry.get("mutant")
    if fault is None or "quick" not in entry:
        yield f"goals.json: {name}: no planted fault and quick form: who knows that it can fail?"
        return
    if set(fault) - {"tests", "programs"} != {"file", "from", "to"}:
        yield f"goals.json: {name}: a mutant has file, from, to, and may have tests or programs"
        return
    path = os.path.join(ROOT, fault["file"])
    text = open(path, encoding="utf-8").read() if os.path.isfile(path) else ""
    if text.count(fault["from"]) != 1:
        yield f"goals.json: {name}: its mutant's text is not once in {fault['file']}"


def result_problems(name, entry, result):
    missing = [key for key in (*KEYS, "commit", "date", "seconds") if key not in result]
    if missing:
        yield f"claims.json: {name}: lacks {', '.join(missing)}"
        return
    if bool(result["ok"]) != verdict(entry["full"], result["value"], result["detail"]):
        yield f"claims.json: {name}: its verdict contradicts its figures or the goal of today"
    why = None if result.get("stale") else staleness(name, entry, result)
    if why is not None:
        yield f"claims.json: {name}: is stale and does not say so ({why}); run.py --render marks it"


def verify(goals, results):
    """Print every disagreement; exit status."""
    found, named, problems = set(programs()), set(goals), []
    problems += [f"bench/claims/{n}: has no entry in goals.json" for n in sorted(found - named)]
    problems += [f"goals.json: {n}: no program bench/claims/{n}" for n in sorted(named - found)]
    for name in sorted(goals):
        problems += entry_problems(name, goals[name])
        problems += fault_problems(name, goals[name])
    problems += [f"claims.json: {n}: no such claim" for n in sorted(set(results) - named)]
    if len(headlines(goals)) > HEADLINES_MAX:
        problems.append(f"goals.json: {len(headlines(goals))} headlines; {HEADLINES_MAX} have room")
    for name in sorted(set(results) & named) if not problems else ():
        problems += result_problems(name, goals[name], results[name])
    made = {} if problems else documents(goals, results)
    for path, text in made.items():
        if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            stale = os.path.relpath(path, ROOT)
            problems.append(f"{stale}: not what the results say; run bench/claims/run.py --render")
    print("\n".join(problems) or f"claims: ok, {len(goals)} programs with their goals")
    return 1 if problems else 0


def judge_again(goals, results):
    """Verdicts are those of today's goals. What has become stale says so from now on, until it is
    measured again."""
    for name in sorted(set(goals) & set(results)):
        result = results[name]
        result["ok"] = verdict(goals[name]["full"], result["value"], result["detail"])
        why = result.get("stale") or staleness(name, goals[name], result)
        if why is not None:
            result["stale"] = why


def render(goals, results):
    for path, text in documents(goals, results).items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def record(name, result, results):
    """Keep the result of a full run, at once: an interrupted session loses nothing."""
    kept = {k: result[k] for k in KEYS + ("seconds",)}
    parts = result.get("parts")
    results.update(load(RESULTS))  # others may have recorded theirs meanwhile
    earlier = remembered(results.get(name))
    results[name] = {**kept, "commit": sources.commit(), "date": datetime.date.today().isoformat()}
    if earlier:
        results[name]["earlier"] = earlier
    if parts is not None:  # cells that were kept took their time when they were measured
        results[name].update(seconds=parts["seconds"], commits=parts["commits"])
        results[name]["commit"] = sources.oldest(parts["commits"])
    save(results)


def save(results):
    os.makedirs(os.path.dirname(RESULTS), exist_ok=True)
    temporary = RESULTS + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1, sort_keys=True)
        file.write("\n")
    os.replace(temporary, RESULTS)


def run(options, goals, results):
    of_kind = [n for n in sorted(goals) if bool(goals[n].get("long")) == options.long]
    chosen = options.only or of_kind
    unknown = [name for name in chosen if name not in goals]
    if unknown:
        print(f"no claim {', '.join(unknown)}; known: {', '.join(sorted(goals))}", file=sys.stderr)
        return 2
    if not options.quick and not options.dirty and sources.commit().endswith("+"):
        print("this tree has changes, so nothing could be recorded: commit first, or --dirty to "
              "measure and record nothing", file=sys.stderr)
        return 2
    print(f"machine: {json.dumps(machine())}")
    summary, failed = [], 0
    for name in chosen:
        result = measure(name, goals[name], options.quick, options.seed)
        failed += result["status"] == "failed"
        if result["status"] == "measured":
            text = f"{number(result['value'])} {result['unit']}, goal {result['goal']}: "
            summary.append((name, text + ("holds" if result["ok"] else "MISSED")))
            if not options.quick and not options.dirty:
                record(name, result, results)
                render(goals, results)
        else:
            summary.append((name, result.get("why", "cannot be measured on this machine")))
    print("\n".join(f"{name:24} {text}" for name, text in summary))
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these claims, timed or long")
    parser.add_argument("--long", action="store_true", help="the accuracy claims, not the timed")
    parser.add_argument("--quick", action="store_true", help="the quick form; results are not kept")
    parser.add_argument("--dirty", action="store_true", help="of a tree with changes: not recorded")
    parser.add_argument("--seed", type=int, help="seed handed to the programs")
    parser.add_argument("--verify", action="store_true", help="check programs, goals and tables")
    parser.add_argument("--render", action="store_true",
                        help="judge what is kept by today's goals, write the tables")
    options = parser.parse_args()
    goals, results = load(GOALS), load(RESULTS)
    if options.verify:
        sys.exit(verify(goals, results))
    if options.render:
        judge_again(goals, results)
        save(results)
        sys.exit(render(goals, results))
    sys.exit(run(options, goals, results))


if __name__ == "__main__":
    main()
