#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plant each of these faults into a copy of src/member or src/ops, and let jobs live
(tests/sim/member_faults_test.c, ops_faults_test.c) until a rule is broken: a searcher that finds
nothing has to show that it could.

    tools/member_faults.py [--room ops] [--lives N] [--seed S] [--only PART]
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

# (name, file of the room, what is there, what is planted)
MEMBER = [
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


OPS = [
    ("what this one found out is kept to itself", "agree.c",
     "if (m != op->plan->me) send_abort(", "if (m < op->plan->me) send_abort("),
    ("whoever has failed tells nobody", "agree.c", "if (op->told_all) return;",
     "if (op->told_all || true) return;"),
    ("nobody looks who has failed it already", "run.c",
     "if (shoali_agree_aborted(op)) return;", ""),
    ("what has ended is forgotten", "run.c", "shoali_agree_remember(op);", ""),
    ("calls are not compared", "agree.c",
     "if (ready->hash != op->hash || ready->count != op->plan->count ||", "if ("),
    ("one early READY of several is read", "agree.c",
     "while (!op->failing && shoali_notes_take_ready(",
     "if (!op->failing && shoali_notes_take_ready("),
    ("rounds of one operation have one name", "recent.h",
     "a->sequence == b->sequence && a->group == b->group && a->round == b->round",
     "a->sequence == b->sequence && a->group == b->group"),
    ("the deadline passes", "run.c", "if (*ops->now_us >= op->deadline_us) {",
     "if (*ops->now_us >= 2 * op->deadline_us) {"),
    ("a deadline comes early", "run.c",
     "op->deadline_us = op->started_us + (uint64_t)op->timeout_us;",
     "op->deadline_us = op->started_us + (uint64_t)op->timeout_us / 2;"),
    ("a failure does not wait for its frames", "run.c",
     "op->row->fail(op->flow, status, op->error.text);", "shoali_run_end(op, status);"),
    ("a slot is used again when nothing is open", "flow.c", "op->slot = ops->next_slot;",
     "op->slot = ops->open == op && op->next_open == NULL ? 0 : ops->next_slot;"),
    ("a flow of another run starts where that ended", "flow.c",
     "memset(kept->flow, 0, bytes);", ""),
    ("a maximum is the plan of a sum", "plan.c", "mine->reduce == desc->reduce &&", ""),
    ("other members have the same plan", "plan.c",
     "same_bytes(mine->members, desc->members, desc->member_count * sizeof *desc->members) &&",
     ""),
    ("an operation is started without one that is lost", "run.c", "if (lacks_member(op))",
     "if (lacks_member(op) && op->plan->member_count == 0)"),
    ("the loss of a peer ends only its own", "end.c",
     "if (op->ended || shoali_member_of(op, endpoint) == SHOALI_NONE) continue;",
     "if (op->ended || shoali_member_of(op, endpoint) != 0) continue;"),
    ("who starts late is blamed though it has", "agree.c", "who, sizeof who, &culprit); for (",
     "who, sizeof who, &culprit) + 1; for ("),
    ("what fails in a stage ends the stage alone", "rounds.c",
     "shoali_run_fail(op, op->rounds.hosts != NULL);", "shoali_run_end(op, SHOAL_OK);"),
    ("hosts meet without having summed inside", "hosts.c", "return stage == INSIDE ? several",
     "return stage == INSIDE ? several && apart"),
    ("the oldest of all is lost with the youngest", "run.c",
     "if (ops->open_last == &op->next_open) ops->open_last = link;", ""),
    ("the flow that failed tells nobody", "flow.c",
     "if (status != SHOAL_ENOTFINITE) /* which every member learns from the data */ "
     "shoali_agree_spread(op);", ""),
    ("a lost peer's frames are waited for in vain", "end.c",
     "shoali_run_fail(op, true); } } void shoali_run_peer_lost",
     "op->failing = true; } } void shoali_run_peer_lost"),
    ("numbers of a group do not go on", "numbers.c", "numbers->groups[at].next++;",
     "numbers->groups[at].next;"),
    ("what members agreed upon holds for those who come", "residual.c",
     "store->transforms[i].agreed = false;", ";"),
    ("whoever has taken fewest steps is right", "steps.c", "(uint64_t)most[0], anew",
     "(uint64_t)-least[0], anew"),
    ("what only some have alike is kept", "steps.c", "anew = anew || most[i] != -least[i];", ";"),
    ("some begin anew", "steps.c", "(uint64_t)most[0], anew",
     "(uint64_t)most[0], anew && op->plan->me == 0"),
    ("a failed step's debt is kept", "keep.c",
     "codec->row->steps->failed(codec->params, op->rounds.transform, op->plan->tensors, "
     "op->plan->tensor_count);", ""),
    ("who has agreed need not tell", "steps.c", "if (agreed != NULL) *agreed = true;",
     "if (agreed != NULL) *agreed = op->plan->me != 1;"),
    ("an owner's job that failed tells nobody", "flow.c",
     "(void)shoali_error_set(&o->job.error); shoali_run_fail(op, true);",
     "(void)shoali_error_set(&o->job.error); shoali_run_fail(op, false);"),
    ("a deadline is by a clock that runs slower", "run.c",
     "op->deadline_us = op->started_us + (uint64_t)op->timeout_us;",
     "op->deadline_us = op->ops->host.now_ns() / 1100 + (uint64_t)op->timeout_us;"),
]

FAULTS = {"member": MEMBER, "ops": OPS}
SEARCHER = {
    "member": ("tests/sim/member_faults_test.c", "tests/support/member_world.c",
               "tests/support/member_node.c", "tests/support/member_comm.c"),
    "ops": ("tests/sim/ops_faults_test.c", "tests/support/ops_life.c", "tests/support/ops_net.c",
            "tests/support/ops_rules.c", "tests/support/ops_time.c",
            "tests/support/ops_trouble.c", "tests/support/toycodec.c",
            "tests/support/toytransform.c"),
}
LIBRARIES = ("jansson", "libcrypto", "libzstd", "openblas")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        sys.exit("member_faults: the searcher does not build: "
                 + (done.stderr or done.stdout)[-2000:])
    return done.stdout


class Builder:
    """Searchers over a room: what no fault touches is made once, the rooms below come from a build
    of the tree."""

    def __init__(self, room, folder):
        self.room, self.folder, self.objects = room, folder, {}
        self.archive = os.path.join(ROOT, "build/release/libshoal_internal.a")
        run("cmake", "--preset", "release")
        run("cmake", "--build", "build/release", "-j", str(os.cpu_count()), "--target",
            "shoal_internal", "--", "--quiet")
        self.libraries = run("pkg-config", "--libs", *LIBRARIES).split()
        self.names = sorted(os.listdir(os.path.join(ROOT, "src", room)))
        self.planted = os.path.join(folder, room)
        os.makedirs(self.planted)
        for name in self.names:
            self.write(name, self.read(name))

    def read(self, name):
        with open(os.path.join(ROOT, "src", self.room, name), encoding="utf-8") as file:
            return file.read()

    def write(self, name, text):
        with open(os.path.join(self.planted, name), "w", encoding="utf-8") as file:
            file.write(text)

    def compile(self, source, target):
        run(os.environ.get("CC", "cc"), "-std=gnu17", "-O1", "-w", "-D_GNU_SOURCE", "-c",
            f"-I{self.folder}", f"-I{ROOT}/src", f"-I{ROOT}/include", f"-I{ROOT}/tests", source,
            "-o", target)
        return target

    def object_of(self, source, fresh):
        """Of a source file that has been compiled before, or anew."""
        target = os.path.join(self.folder, os.path.basename(source) + ".o")
        if fresh:
            return self.compile(source, target + ".planted")
        if source not in self.objects:
            self.objects[source] = self.compile(source, target)
        return self.objects[source]

    def build(self, fault):
        """The program that searches the room with the fault in it."""
        changed = None
        if fault is not None:
            changed = fault[1]
            text, places = re.subn(r"\s+".join(map(re.escape, fault[2].split())),
                                   lambda _: fault[3], self.read(changed))
            if places != 1:
                sys.exit(f"member_faults: {changed} has {places} places like this: {fault[2]}")
            self.write(changed, text)
        all_of_it = changed is not None and changed.endswith(".h")
        objects = [self.object_of(os.path.join(self.planted, n), all_of_it or n == changed)
                   for n in self.names if n.endswith(".c")]
        objects += [self.object_of(os.path.join(ROOT, source), all_of_it)
                    for source in (*SEARCHER[self.room], "tests/support/check.c")]
        if changed is not None:
            self.write(changed, self.read(changed))
        program = os.path.join(self.folder, "search")
        run(os.environ.get("CC", "cc"), "-o", program, *objects, self.archive, "-lcmocka",
            *self.libraries, "-lm", "-lpthread")
        return program


def search(program, lives, seed):
    """(what was found or None, how many lives it took)"""
    try:
        done = subprocess.run([program], capture_output=True, text=True, check=False,
                              timeout=60 + lives / 100, errors="replace",
                              env=dict(os.environ, SHOAL_SOAK_RUNS=str(lives),
                                       SHOAL_TEST_SEED=str(seed)))
    except subprocess.TimeoutExpired:
        return "it hangs", lives
    found = re.search(r"seed (\d+): (.*)", done.stdout + done.stderr)
    if found is not None:
        return found[2], int(found[1]) - seed + 1
    if done.returncode < 0:
        return f"it dies of signal {-done.returncode}", lives
    return (None if done.returncode == 0 else "it does not go on in most lives"), lives


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--room", choices=FAULTS, default="member")
    parser.add_argument("--lives", type=int, default=10000, help="at most so many per fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="faults whose names contain this")
    parser.add_argument("--none", action="store_true", help="the code as it is")
    options = parser.parse_args()
    faults = [f for f in FAULTS[options.room] if options.only in f[0]]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        builder = Builder(options.room, folder)
        if options.none:
            what, lives = search(builder.build(None), options.lives, options.seed)
            print(f"{lives} lives from seed {options.seed}: {what or 'no rule broken'}")
            sys.exit(what is not None)
        for number, fault in enumerate(faults):
            what, lives = search(builder.build(fault), options.lives, options.seed)
            missed += what is None
            found = f"found in life {lives}: {what}" if what else f"NOT FOUND in {lives} lives"
            print(f"{number + 1:2} {fault[0]}: {found}", flush=True)
    print(f"{len(faults) - missed} of {len(faults)} planted faults found")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
