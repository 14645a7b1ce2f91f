# SPDX-License-Identifier: Apache-2.0
"""What must be true of a soak (soak.py), as functions of what was seen: metrics lines by file,
looks at processes (soak_rank.py), what lies about afterwards. Each gives violations, as
sentences."""

import glob
import json
import os
import time

GROWTH_KIB, GROWTH_PER_FAULT_KIB = 8192, 256
# Connections for data are made when there is some: a state that moves needs one that the ring has
# not, on either side. And one rank has the rendezvous' door after a reform.
SPARE_SOCKETS = 3
NAMESPACES = ("net", "user", "pid", "mnt", "cgroup")


class Metrics:
    """Lines of all metrics files of a run, read as they come."""

    def __init__(self, folder):
        self.folder, self.files, self._at = folder, {}, {}

    def read(self):
        for path in glob.glob(os.path.join(self.folder, "metrics*.jsonl")):
            name = os.path.basename(path)
            with open(path, "rb") as file:
                file.seek(self._at.get(name, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._at[name] = self._at.get(name, 0) + len(whole)
            for line in whole.splitlines():
                try:
                    self.files.setdefault(name, []).append(json.loads(line))
                except ValueError as reason:
                    raise ValueError(f"{name}: a line does not parse: {line!r}") from reason
        return self.files


def steps_of(lines):
    """{step: line}; of a step that was made again the later line counts."""
    return {line["step"]: line for line in lines if "at_us" in line}


def place(line):
    return line["step_first"], line["step_samples"]


def chain(files):
    """({step: (first, samples)} that cover the samples one after the other, where they end,
    sentences where they do not).

    A worker may finish a step alone and be lost with it: the others make it again, with other
    shares. So a step may stand in the files in two forms, of which one goes on where the one before
    ended."""
    forms, chosen, bad = {}, {}, []
    for lines in files.values():
        for line in lines:
            if "at_us" in line:
                forms.setdefault(line["step"], {})[place(line)] = line["at_us"]
    if not forms:
        return {}, 0, ["no step was written"]
    ends = {0: None}  # where a step may have ended: the ways there, [(step, form), before]
    for step in range(1, max(forms) + 1):
        after = {
            first + count: ((step, (first, count)), ends[first])
            for first, count in forms.get(step, {})
            if first in ends
        }
        if not after:
            latest = max(forms.get(step, {}), key=forms.get(step, {}).get, default=None)
            bad.append(
                f"step {step} is of samples {latest}, the one before ended at {sorted(ends)}"
            )
            if latest is None:
                continue
            after = {sum(latest): ((step, latest), next(iter(ends.values())))}
        ends = after
    end = max(ends)
    way = ends[end]
    while way is not None:
        chosen[way[0][0]] = way[0][1]
        way = way[1]
    return chosen, end, bad


def samples(files, wanted, victims):
    """Every sample once: over the run's steps, and within each step over its workers. wanted: all
    epochs' samples; victims: files of workers that were hurt, who alone may have been in vain."""
    chosen, end, bad = chain(files)
    whole = 0
    if end != wanted:
        bad.append(f"the steps end at sample {end} of {wanted}")
    made = {name: steps_of(lines) for name, lines in files.items()}
    for step, form in chosen.items():
        shares = sorted(
            (lines[step]["first"], lines[step]["samples"])
            for lines in made.values()
            if step in lines and place(lines[step]) == form
        )
        whole += sum(count for _, count in shares) == form[1]
        at = form[0]
        for first, count in shares:
            if count > 0 and (first < at or first + count > sum(form)):
                bad.append(f"step {step} of samples {form} has shares {shares}")
                break
            at = first + count
    for name, lines in made.items():
        vain = [step for step, line in lines.items() if place(line) != chosen.get(step)]
        if vain and name not in victims:
            bad.append(f"{name}: steps {vain} were in vain, and nobody hurt this worker")
    if whole * 2 < len(chosen):
        bad.append(f"all shares of a step are known in {whole} of {len(chosen)} only")
    return {"steps": len(chosen), "whole_steps": whole, "violations": bad}


def hashes(files):
    """{step: {file: hash of the weights after it}}, without those of steps made in vain."""
    chosen, _, _ = chain(files)
    found = {}
    for name, lines in files.items():
        form = None
        for line in lines:
            form = (line["step"], place(line)) if "at_us" in line else form
            if "replica" in line and (form is None or chosen.get(form[0]) == form[1]):
                found.setdefault(line["replica"], {})[name] = line["hash"]
    return found


def replicas(files, least):
    """Weights of different workers after the same step, by their hashes; least: so many steps at
    which at least two are there."""
    bad, compared = [], 0
    for step, by_file in sorted(hashes(files).items()):
        compared += len(by_file) > 1
        if len(set(by_file.values())) > 1:
            bad.append(f"replicas differ after step {step}: {by_file}")
    if compared < least:
        bad.append(f"replicas were compared after {compared} steps only, not {least}")
    return {"compared": compared, "violations": bad}


def descriptors(first, now, at_work=0):
    """The first and a later look at one process: more descriptors of a kind, or threads, however
    many faults lie in between. at_work: threads (and a socket each) that a look may have missed, as
    they are made when there is work for them."""
    bad = []
    for kind, count in now["fds"].items():
        spare = SPARE_SOCKETS + at_work if kind.startswith("socket") else 0
        limit = first["fds"].get(kind, 0) + spare
        if count > limit:
            bad.append(f"{count} descriptors of {kind}, at most {limit} expected")
    if now["threads"] > first["threads"] + at_work:
        bad.append(f"{now['threads']} threads, {first['threads']} at first")
    return bad


def memory(first, now, faults):
    """Resident memory of one process since its first look, with so many faults in between."""
    limit = first["rss_kib"] + GROWTH_KIB + faults * GROWTH_PER_FAULT_KIB
    if now["rss_kib"] <= limit:
        return []
    return [f"{now['rss_kib']} KiB resident after {faults} faults, {first['rss_kib']} at first"]


def processes(variable):
    """Ids of processes with this in their environment, "NAME=value"."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if variable.encode() in file.read().split(b"\0"):
                    found.add(int(pid))
        except OSError:
            continue  # it has ended, or is another user's
    return found


def namespaces(pids):
    """Namespaces of these processes that are not our own, "net:[4026531840]"."""
    found = set()
    for kind in NAMESPACES:
        own = os.readlink(f"/proc/self/ns/{kind}")
        for pid in pids:
            try:
                found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
            except OSError:
                continue
        found.discard(own)
    return found


def started(pid):
    """When a process began, on time.monotonic's scale (10 ms apart at most); None: it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
    except OSError:
        return None
    sleeps = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    return ticks / os.sysconf("SC_CLK_TCK") - sleeps


def namespaces_left(made, moment):
    """Which of them somebody is in who began before `moment`, or has mounted. The kernel gives
    the number of one that is gone to the next that anybody makes."""
    began = {int(pid): started(pid) for pid in os.listdir("/proc") if pid.isdigit()}
    everybody = [pid for pid, when in began.items() if when is not None and when < moment]
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = file.read()
    return (made & namespaces(everybody)) | {name for name in made if name in mounts}


def litter(folders):
    """Files in folders of the run that have to be empty afterwards, and what has a fixed place."""
    found = {path for folder in folders for path in glob.glob(os.path.join(folder, "*"))}
    return (
        found | set(glob.glob("/dev/shm/shoal*")) | set(glob.glob(f"/tmp/shoal-{os.geteuid()}-*"))
    )
