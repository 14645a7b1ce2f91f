#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plant each of these faults into a copy of src/member, and let jobs live
(tests/sim/member_faults_test.c) until a rule is broken: a searcher that finds nothing has to show
that it could.

    tools/member_faults.py [--lives N] [--seed S] [--only PART]
    tools/member_faults.py --none --lives 1000000       the code as it is

Prints a line per fault with the life that found it; exit status 1 if one was not found, or
something was found without a fault."""

import argparse
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# (name, file of src/member, what is there, what is planted)
FAULTS = [
    ("a vote is counted twice", "quorum.c",
     "tally->here += vote == SHOALI_VOTE_HERE;", "tally->here += 2 * (vote == SHOALI_VOTE_HERE);"),
    ("half is enough for anybody", "quorum.c",
     "(tally->here == others && tally->lowest_here)", "tally->here == others"),
    ("who is alone decides", "quorum.c", "tally->away == 0 ||", "tally->away <= 1 ||"),
    ("one fewer than half decides", "quorum.c", "tally->here > others ||",
     "tally->here + 1 > others ||"),
    ("those out of reach count as dead", "member.c",
     ": is_out_of_reach(m, i) ? SHOALI_VOTE_AWAY", ": is_out_of_reach(m, i) ? SHOALI_VOTE_GONE"),
    ("who has moved on counts as dead", "member.c",
     "m->states[i] == SHOALI_MEMBER_ASTRAY ||\n           m->states[i] == SHOALI_MEMBER_MOVED",
     "m->states[i] == SHOALI_MEMBER_ASTRAY"),
    ("a proof counts however old the last word is", "life.c",
     "if (silent_us > peer_timeout_us / FRESH)", "if (silent_us > 100 * peer_timeout_us)"),
    ("who dies while it reforms counts as gone", "life.c",
     "leaving ? SHOALI_DEATH_DYING :", "leaving ? SHOALI_DEATH_CERTAIN :"),
    ("what waited while this one slept is fresh", "life.c",
     "late_us > peer_timeout_us / LATE ? peer_timeout_us / LATE : 0", "late_us - late_us"),
    ("nobody is quiet before leaving others out", "member.c",
     "return last_us + shoali_life_quiet_us(m->peer_timeout_us);", "return 0 * last_us;"),
    ("every proposal is certain", "member.c",
     "proposal_out->certain = is_certain(m, calls);", "proposal_out->certain = 1;"),
    ("no doubt is asked about", "member.c", "return clear ? SHOALI_LEAD_PROPOSE",
     "return clear || true ? SHOALI_LEAD_PROPOSE"),
    ("a leader asks about its own doubts only", "member.c",
     "if (calls->members[i] != NULL)\n            clear",
     "if (calls->members[i] != NULL && i < m->me)\n            clear"),
    ("doubts are forgotten with each new one", "member.c",
     "if (m->doubts[i].leader != proposal->leader)", "if (m->doubts[i].leader == 0)"),
    ("a doubt is void if anybody of it has come", "member.c",
     "p->m->identity[i] == doubt->leader && is_present(p, i)",
     "shoali_proposal_stays(doubt, i) && is_present(p, i)"),
    ("the next epoch is the same", "member.c", "proposal_out->epoch = ++place.epoch;",
     "proposal_out->epoch = place.epoch;"),
    ("epochs that others have tried are not counted", "member.c",
     "place->epoch = come->tried > place->epoch ? come->tried : place->epoch;", ""),
    ("steps of those who come are not counted", "member.c",
     "if (come->done > place->done_max)", "if (come->done > place->done_max + 1)"),
    ("more newcomers than there is room for", "member.c",
     "calls->newcomers && place.size < calls->room", "calls->newcomers"),
    ("nobody is waited for", "member.c", "if (!all_have_come(m, calls, now_us))",
     "if (m->size == 0)"),
]


def build(folder, fault):
    """A copy of src/member with the fault, and the searcher over it."""
    member = os.path.join(folder, "member")
    os.makedirs(member, exist_ok=True)
    for name in os.listdir(os.path.join(ROOT, "src/member")):
        with open(os.path.join(ROOT, "src/member", name), encoding="utf-8") as file:
            text = file.read()
        if fault is not None and name == fault[1]:
            text, places = re.subn(r"\s+".join(map(re.escape, fault[2].split())),
                                   lambda _, planted=fault[3]: planted, text)
            if places != 1:
                sys.exit(f"member_faults: {name} has {places} places like this: {fault[2]}")
        with open(os.path.join(member, name), "w", encoding="utf-8") as file:
            file.write(text)
    sources = [os.path.join(member, n) for n in sorted(os.listdir(member)) if n.endswith(".c")]
    sources += [os.path.join(ROOT, p) for p in (
        "tests/sim/member_faults_test.c", "tests/support/member_world.c",
        "tests/support/member_node.c", "tests/support/member_comm.c", "tests/support/check.c",
        "src/wire/member.c",
        "src/base/rng.c", "src/base/error.c", "src/base/log.c", "src/base/clock.c",
        "src/base/arena.c", "src/base/printable.c")]
    program = os.path.join(folder, "search")
    run = subprocess.run(
        [os.environ.get("CC", "cc"), "-std=gnu17", "-O2", "-w", "-D_GNU_SOURCE", f"-I{folder}",
         f"-I{ROOT}/src", f"-I{ROOT}/include", f"-I{ROOT}/tests", "-o", program, *sources,
         "-lcmocka", "-lm", "-lpthread"], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit("member_faults: the searcher does not build: " + run.stderr[-2000:])
    return program


def search(program, lives, seed):
    """(what was found or None, how many lives it took)"""
    run = subprocess.run([program], capture_output=True, text=True, check=False,
                         env=dict(os.environ, SHOAL_SOAK_RUNS=str(lives),
                                  SHOAL_TEST_SEED=str(seed)))
    found = re.search(r"seed (\d+): (.*)", run.stdout + run.stderr)
    if found is not None:
        return found[2], int(found[1]) - seed + 1
    return (None if run.returncode == 0 else "it does not go on in most lives"), lives


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--lives", type=int, default=10000, help="at most so many per fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="faults whose names contain this")
    parser.add_argument("--none", action="store_true", help="the code as it is")
    options = parser.parse_args()
    if options.none:
        with tempfile.TemporaryDirectory() as folder:
            what, lives = search(build(folder, None), options.lives, options.seed)
        print(f"{lives} lives from seed {options.seed}: {what or 'no rule broken'}")
        sys.exit(what is not None)
    faults = [f for f in FAULTS if options.only in f[0]]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, fault in enumerate(faults):
            what, lives = search(build(folder, fault), options.lives, options.seed)
            missed += what is None
            found = f"found in life {lives}: {what}" if what else f"NOT FOUND in {lives} lives"
            print(f"{number + 1:2} {fault[0]}: {found}", flush=True)
    print(f"{len(faults) - missed} of {len(faults)} planted faults found")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
