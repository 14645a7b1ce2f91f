# SPDX-License-Identifier: Apache-2.0
"""Training runs in the lab, each with one random fault after the other, and what must be true after
each of them (soak_checks.py). Which rank is hurt how, when and for how long follows from the seed,
and with `any protocol` which protocol it is: where replicas differ nothing is compared, and samples
may be left out.

    kill    SIGKILL, and started again           stop   SIGSTOP, SIGKILL later, and started again
    pause   SIGSTOP, SIGCONT later               cut    the link is down, and up again
    slow    the link has a tenth of its rate for a while: nobody may be lost
    part    it and another lose all ways to the others, with resets: two halves, of which at most
            one makes steps
    two     two ranks at once, each paused or killed

A fault is over when all ranks have made steps together again and their weights are compared. What
has a deadline (RECOVER_S, above the peer timeout and the longest fault) can fail because the
machine stood still, processes stopped from outside or starved: a clock that ticks ten times a
second notices gaps. Such a failure, with a gap of more than STALL_S since the fault, is counted and
told as "disturbed", with the length of the gap; anything else is a violation."""

import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import claim
import soak_checks as checks

SHOAL = os.path.join(claim.ROOT, "build", "release", "shoal")
RANK = os.path.join(claim.HERE, "soak_rank.py")
RANKS, RATE, SLOW_RATE = 4, "250mbit", "25mbit"
# No fault within the last samples: who is started again when the others are through is late. Three
# ranks take about 280 a second; the longest fault and the way back 7 s.
SAMPLES, MARGIN = 2000, 2500
KINDS = ("kill", "pause", "stop", "cut", "slow", "part", "two")
HEAL = {"pause": ("cont",), "cut": ("mend",), "slow": ("fast",), "kill": ("start",)}
HEAL["stop"] = ("kill", "start")
DOES = {"pause": "stop"}  # what the agent calls it, where it is not the fault's name
JOIN_S, RECOVER_S, SETTLE_S, STALL_S, END_S = 60, 60, 10, 1, 120
EPOCHS = 30  # of a run at most
LOOSE = ("local_sgd:every=4", "diloco:every=4", "ripples:smart", "ad_psgd", "hop:graph=complete")
FAULT_S, FAULT_SAMPLES = 6, 800  # what a fault takes, roughly
NOTICED_S = 3.5  # the peer timeout is 2.5 s: what is over before may go by unnoticed
TRAIN = "train --model mlp-small --batch 8 --lr 0.02 --compute-ms 40 --check-every 5"


class Cannot(Exception):
    """This machine can make no lab."""


class Late(Exception):
    """Something with a deadline did not come."""


class Clock(threading.Thread):
    """Notices when this machine stands still."""

    def __init__(self):
        super().__init__(daemon=True)
        self.gaps, self._over = [], threading.Event()

    def run(self):
        last = time.monotonic()
        while not self._over.wait(0.1):
            now = time.monotonic()
            if now - last > STALL_S:
                self.gaps.append((now, now - last))
            last = now

    def longest_since(self, moment):
        return max((gap for at, gap in self.gaps if at >= moment), default=0)

    def stop(self):
        self._over.set()
        self.join()


class Agent:
    """The line to one rank's soak_rank.py."""

    def __init__(self, folder, rank, job):
        path = os.path.join(folder, f"agent.{rank}")
        end = time.monotonic() + JOIN_S
        self.socket = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self.socket.connect(path)
                break
            except OSError as reason:
                if job.poll() is not None:
                    raise Cannot(job.stderr.read().strip()) from reason
                if time.monotonic() > end:
                    raise Late(f"rank {rank}'s agent does not answer") from reason
                time.sleep(0.05)
        self.stream = self.socket.makefile("rw", encoding="ascii")

    def do(self, word):
        self.stream.write(word + "\n")
        self.stream.flush()
        return json.loads(self.stream.readline())

    def close(self):
        self.stream.close()
        self.socket.close()


class Session:
    """One training run and the faults on it."""

    def __init__(self, data, seed, epochs, say, any_protocol=False):
        self.seed, self.epochs, self.say = seed, epochs, say
        self.draw, self.clock = random.Random(seed), Clock()
        self.sync = self.draw.choice(LOOSE) if any_protocol else "all_reduce"
        self.folder = tempfile.mkdtemp(prefix="shoal-soak-")
        self.status = os.path.join(self.folder, "status")
        self.tmp = os.path.join(self.folder, "tmp")
        for path in (self.status, self.tmp):
            os.mkdir(path, 0o700)
        self.mine = f"SHOAL_STATUS_DIR={self.status}"
        self.metrics = checks.Metrics(os.path.join(self.folder, "out"))
        self.faults, self.violations, self.disturbed, self.victims = [], [], [], set()
        self.first = {}  # by process: its first look, and the faults before it
        self.lab, self.agents = set(), []
        self.litter = checks.litter([])
        argv = [SHOAL, *TRAIN.split(), "--on-loss", "reform", "--quiet", "--data", data]
        argv += ["--sync", self.sync, "--epochs", str(epochs), "--seed", str(seed)]
        argv += ["--out", self.metrics.folder]
        plan = {"argv": argv, "rate": RATE, "slow_rate": SLOW_RATE, "silence_s": 2 * RECOVER_S}
        with open(os.path.join(self.folder, "plan.json"), "w", encoding="utf-8") as file:
            json.dump(plan, file)

    # ------------------------------------------------------------------ what is seen

    def bad(self, moment, what, timed=False):
        gap = self.clock.longest_since(moment)
        what = f"seed {self.seed}: {what}"
        if timed and gap > 0:
            self.disturbed.append(f"{what}; the machine stood still for {gap:.1f} s")
        else:
            self.violations.append(what)
        self.say((self.disturbed if timed and gap > 0 else self.violations)[-1])

    def step(self):
        """Last step and sample that anybody has made."""
        at = [0, 0]
        for lines in self.metrics.read().values():
            for line in reversed(lines):
                if "at_us" in line:
                    at = max(at, [line["step"], sum(checks.place(line))])
                    break
        return at

    def wait(self, what, ready, seconds):
        end = time.monotonic() + seconds
        while True:
            result = ready()
            if result:
                return result
            if time.monotonic() > end:
                raise Late(f"{what} after {seconds} s")
            codes = [look["exit"] for look in self.look()]
            if None not in codes and not ready():
                raise Late(f"{what}: all ranks have ended, {codes}")
            time.sleep(0.05)

    def together(self, step, seconds, what):
        """Until all ranks' weights after a step behind this one are compared."""

        def compared():
            found = {}
            if self.sync in LOOSE:
                files = self.metrics.read().values()
                ahead = [any(x.get("step", 0) > step for x in lines[-5:]) for lines in files]
                return sum(ahead) >= RANKS
            for name, lines in self.metrics.read().items():
                for line in reversed(lines):
                    if line.get("replica", 0) > step:
                        found.setdefault(line["replica"], set()).add(name)
                    elif "replica" in line:
                        break
            return any(len(names) == RANKS for names in found.values())

        self.wait(what, compared, seconds)

    def look(self):
        return [agent.do("look") for agent in self.agents]

    def reforms(self):
        return sum("reform" in line for lines in self.metrics.files.values() for line in lines)

    def metrics_file(self, look):
        names = (os.path.basename(path.strip()) for path in look.get("fds", {}))
        return next((name for name in names if name.startswith("metrics")), None)

    # ------------------------------------------------------------------ a fault

    def hurt(self, kind, victim):
        """The fault, its end, and the wait for all; seconds from its end to that."""
        agent, moment = self.agents[victim], time.monotonic()
        self.victims.add(self.metrics_file(agent.do("look")))
        reforms, said = self.reforms(), self.said()
        lasts = self.draw.uniform(1.5, 4.5)
        if kind == "part":
            self.halves(victim, lasts)
        elif kind == "two":
            self.two(victim, lasts)
        else:
            agent.do(DOES.get(kind, kind))
            time.sleep(lasts)
            for word in HEAL[kind]:
                agent.do(word)
        healed = time.monotonic()
        step = self.step()[0]
        self.together(step, RECOVER_S, f"{kind} of rank {victim}: not together again")
        if kind == "slow" and self.reforms() > reforms:
            self.bad(moment, f"slow link of rank {victim}: somebody was lost", timed=True)
        at_once = kind in ("kill", "part")
        if (at_once or kind != "slow" and lasts > NOTICED_S) and self.said() <= said:
            self.bad(moment, f"{kind} of rank {victim}: nobody says that it is lost", timed=True)
        return time.monotonic() - healed

    def other(self, victim):
        return self.draw.choice([rank for rank in range(RANKS) if rank != victim])

    def two(self, victim, lasts):
        """Two at once: the others go on where deaths are proven, or the lowest is theirs."""
        pair = (victim, self.other(victim))
        ways = [self.draw.choice(("kill", "pause")) for _ in pair]
        for rank, way in zip(pair, ways):
            self.victims.add(self.metrics_file(self.agents[rank].do("look")))
            self.agents[rank].do(DOES.get(way, way))
        time.sleep(lasts)
        for rank, way in zip(pair, ways):
            for word in HEAL[way]:
                self.agents[rank].do(word)

    def halves(self, victim, lasts):
        """Two halves, and what each does meanwhile."""
        moment, here = time.monotonic(), (victim, self.other(victim))
        there = [rank for rank in range(RANKS) if rank not in here]
        names = [self.metrics_file(agent.do("look")) for agent in self.agents]
        self.all_agents("part", here, there)
        time.sleep(1)  # what was under way is over
        before = [len(lines) for lines in self.lines_of(names)]
        time.sleep(lasts)
        goes_on = [len(lines) > n for lines, n in zip(self.lines_of(names), before)]
        self.all_agents("join", here, there)
        if any(goes_on[rank] for rank in here) and any(goes_on[rank] for rank in there):
            self.bad(moment, f"ranks {here} and {there} do not reach each other, both make steps")
        self.victims |= {names[rank] for rank in range(RANKS) if not goes_on[rank]}

    def all_agents(self, word, here, there):
        for rank, agent in enumerate(self.agents):
            agent.do(f"{word} {' '.join(map(str, there if rank in here else here))}")

    def lines_of(self, names):
        files = self.metrics.read()
        return [[x for x in files.get(name, ()) if "at_us" in x] for name in names]

    def said(self):
        """How often anybody has named a rank as lost."""
        count = 0
        for rank in range(RANKS):
            with open(os.path.join(self.folder, f"errors.{rank}"), encoding="utf-8") as file:
                count += file.read().count(" is lost: ")
        return count

    def leaks(self, what):
        """Descriptors, threads and memory of those that have lived through it."""
        moment, bad = time.monotonic(), []
        while True:
            now, bad = self.look(), []
            for rank, new in enumerate(now):
                if new["pid"] not in self.first or "fds" not in new:
                    continue
                first, born = self.first[new["pid"]]
                lived = len(self.faults) - born
                at_work = 1 if self.sync in LOOSE else 0  # in each epoch, with its first MIX
                found = checks.descriptors(first, new, at_work) + checks.memory(first, new, lived)
                bad += [f"{what}: rank {rank} has {text}" for text in found]
            running = len(checks.processes(self.mine))
            if running > self.running:
                bad.append(f"{what}: {running} processes, {self.running} at first")
            if not bad or time.monotonic() - moment > SETTLE_S:
                break
            time.sleep(0.2)
        for text in bad:
            self.bad(moment, text)

    def fault(self, kind):
        victim = self.draw.randrange(RANKS)
        for look in self.look():
            if "fds" in look:
                self.first.setdefault(look["pid"], (look, len(self.faults)))
        first = self.step()[0] + self.draw.randrange(1, 12)
        self.wait("no steps", lambda: self.step()[0] >= first, RECOVER_S)
        moment = time.monotonic()
        try:
            took = self.hurt(kind, victim)
        except Late as what:
            self.faults.append({"kind": kind, "victim": victim, "step": first})
            self.bad(moment, str(what), timed=True)
            raise
        self.faults.append({"kind": kind, "victim": victim, "step": first, "again_s": took})
        self.leaks(f"after {kind} of rank {victim} at step {first}")
        self.say(f"{kind} of rank {victim} at step {first}: together again {took:.1f} s later")

    # ------------------------------------------------------------------ a run

    def begin(self):
        doors = ",".join(f"10.77.0.{i + 1}:29402" for i in range(RANKS))
        places = {"TMPDIR": self.tmp, "SHOAL_STATUS_DIR": self.status, "SHOAL_DOORS": doors}
        self.job = subprocess.Popen(
            [SHOAL, *f"run -n {RANKS} --lab rate={RATE} --grace 90 --".split(), RANK, self.folder],
            env={**os.environ, **places},
            cwd=self.tmp,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.agents = []
        for rank in range(RANKS):
            self.agents.append(Agent(self.folder, rank, self.job))
        pids = [agent.do("start")["pid"] for agent in self.agents]
        self.lab = checks.namespaces(pids)
        self.together(0, JOIN_S, "the start")
        self.running = len(checks.processes(self.mine))

    def end(self):
        """All ranks end well."""

        def codes_of_all():
            codes = [look["exit"] for look in self.look()]
            return None not in codes and codes

        moment = time.monotonic()
        codes = self.wait("no end of the run", codes_of_all, END_S)
        if any(codes):
            self.bad(moment, f"ranks end with {codes}: {self.errors()}", timed=True)
        for agent in self.agents:
            agent.do("end")
        self.job.wait(JOIN_S)
        if self.job.returncode != 0:
            self.bad(moment, f"the launcher ends with {self.job.returncode}")

    def errors(self):
        texts = []
        for rank in range(RANKS):
            with open(os.path.join(self.folder, f"errors.{rank}"), encoding="utf-8") as file:
                texts.append(f"rank {rank}: " + " | ".join(file.read().splitlines()[-3:]))
        return "; ".join(texts)

    def afterwards(self, ended):
        """What the files say, and what lies about."""
        moment, files = time.monotonic(), self.metrics.read()
        if self.sync in LOOSE:
            steps = sum("at_us" in line for lines in files.values() for line in lines)
            found, same = {"steps": steps}, {"violations": [], "compared": 0}
        else:
            found = checks.samples(files, SAMPLES * self.epochs, self.victims) if ended else {}
            same = checks.replicas(files, len(self.faults) + 1 if ended else 1)
        found.setdefault("steps", 0)
        for text in found.get("violations", []) + same["violations"]:
            self.bad(moment, text)
        while checks.processes(self.mine) and time.monotonic() < moment + SETTLE_S:
            time.sleep(0.1)
        left = {
            "processes": sorted(checks.processes(self.mine)),
            "namespaces": sorted(checks.namespaces_left(self.lab, moment)),
            "files": sorted(checks.litter([self.tmp, self.status]) - self.litter),
        }
        for what, names in left.items():
            if names:
                self.bad(moment, f"{what} stay behind: {', '.join(map(str, names))}")
        return {"steps": found["steps"], "compared": same["compared"]}

    def run(self, wanted):
        """Faults until so many, or until the run is nearly over."""
        ended, moment = False, time.monotonic()
        self.clock.start()
        kinds = []
        try:
            self.begin()
            last = SAMPLES * self.epochs - MARGIN
            while len(self.faults) < wanted and self.step()[1] < last:
                kinds = kinds or self.draw.sample(KINDS, len(KINDS))
                self.fault(kinds.pop())
            self.end()
            ended = True
        except Late as what:
            if not self.violations and not self.disturbed:
                self.bad(moment, str(what), timed=True)
            self.say(self.errors())
        finally:
            for agent in self.agents:
                agent.close()
            if self.job.poll() is None:
                self.job.terminate()
                self.job.wait()
            self.job.stderr.close()
            self.clock.stop()
            result = self.afterwards(ended)
            shutil.rmtree(self.folder, ignore_errors=True)
        return result


def run(seed, faults, seconds=0, say=lambda text: None, any_protocol=False):
    """Runs with at least so many faults in all, for at least so long: {"faults", "kinds", "steps",
    "compared", "violations", "disturbed"}."""
    if not os.path.exists(SHOAL):
        raise Cannot("build/release/shoal is not built: make build")
    all_ = {"faults": 0, "kinds": {}, "steps": 0, "compared": 0, "runs": 0, "again_s": []}
    all_.update({"violations": [], "disturbed": []})
    end = time.monotonic() + seconds
    data = tempfile.mkdtemp(prefix="shoal-soak-data-")
    try:
        digits = f"data digits --out {data} --train {SAMPLES} --test 1000"
        subprocess.run([SHOAL, *digits.split()], check=True, capture_output=True)
        while all_["faults"] < faults or time.monotonic() < end:
            rest = max(faults - all_["faults"], int((end - time.monotonic()) / FAULT_S), 1)
            epochs = min((rest * FAULT_SAMPLES + MARGIN) // SAMPLES + 1, EPOCHS)
            session = Session(data, seed, epochs, say, any_protocol)
            say(f"seed {seed}: {session.sync}")
            found = session.run(rest)
            all_["runs"] += 1
            all_["faults"] += len(session.faults)
            for fault in session.faults:
                all_["kinds"][fault["kind"]] = all_["kinds"].get(fault["kind"], 0) + 1
                all_["again_s"] += [fault["again_s"]] if "again_s" in fault else []
            for key in ("steps", "compared"):
                all_[key] += found[key]
            all_["violations"] += session.violations
            all_["disturbed"] += session.disturbed
            say(f"{all_['faults']} faults, {len(all_['violations'])} violations")
            seed += 1
    except OSError as reason:
        raise Cannot(str(reason)) from reason
    finally:
        shutil.rmtree(data, ignore_errors=True)
    return all_


def claim_main(name, doc, quick, full, seconds=0):
    """A claim of so many faults; in full for so long at least."""
    this, began = claim.Claim(name, doc), time.monotonic()
    if this.quick:
        full, seconds = quick, 0
    try:
        found = run(this.seed, full, seconds, say=lambda text: print(text, flush=True))
    except Cannot as reason:
        this.cannot(reason)
    again = sorted(found.pop("again_s"))
    found["again_median_s"] = again and round(again[len(again) // 2], 2) or None
    found["again_worst_s"] = again and round(again[-1], 2) or None
    found["minutes"] = round((time.monotonic() - began) / 60, 1)
    violations = found.pop("violations")
    found["disturbed"] = len(found["disturbed"])
    this.report(len(violations), found)
