#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of a soak (soak.py): does to its command, inside the lab, what it is told.

    shoal run -n N --lab SPEC -- bench/claims/soak_rank.py FOLDER

FOLDER/plan.json: {"argv", "rate", "slow_rate", "silence_s"}. It listens at the unix socket
FOLDER/agent.RANK for lines: start, kill, stop, cont, cut, mend, slow, fast, part HOSTS, join HOSTS,
end, look. Each answer is a line of JSON: {"pid", "exit", "fds", "threads", "rss_kib"} of the
command, None where there is none. Nothing heard for silence_s, it ends and takes the command with
it."""

import json
import os
import signal
import socket
import subprocess
import sys

TOOLS = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}


def look_at(pid):
    """Descriptors by kind, threads and memory of a process; {} if it has ended."""
    kinds, found = {}, {}
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                kind = os.readlink(f"/proc/{pid}/fd/{fd}").split("[")[0]
            except FileNotFoundError:
                continue  # closed meanwhile
            kinds[kind] = kinds.get(kind, 0) + 1
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file if ":" in line)
        found = {"threads": int(lines["Threads"]), "rss_kib": int(lines["VmRSS"].split()[0])}
    except (OSError, KeyError):
        return {}
    return {"fds": kinds, **found}


def own_children():
    """Their ids as /proc has them, which is the host's where /proc is; our own are the lab's."""
    with open("/proc/thread-self/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def part(others, apart):
    """No way to other hosts of the lab (numbers), and what connects to them is reset; or a way
    again."""
    for host in others:
        route = f"ip route {'add' if apart else 'del'} prohibit 10.77.0.{int(host) + 1}/32"
        subprocess.run(route.split(), check=True, env=TOOLS)
    for host in others if apart else ():
        reset = f"ss -K dst 10.77.0.{int(host) + 1}"
        subprocess.run(reset.split(), check=False, capture_output=True, env=TOOLS)


def shape(rate):
    change = f"tc qdisc replace dev eth0 root tbf rate {rate} burst 96kb limit 1024kb"
    subprocess.run(change.split(), check=True, env=TOOLS)


class Rank:
    """The command and what happens to it."""

    def __init__(self, folder, rank):
        with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
            self.plan = json.load(file)
        self.errors = open(os.path.join(folder, f"errors.{rank}"), "ab")
        self.child, self.pid = None, None

    def do(self, word):
        alone = self.child is None or self.child.poll() is not None
        if word == "start" and alone:
            self.child = subprocess.Popen(
                self.plan["argv"], stdin=subprocess.DEVNULL, stderr=self.errors, close_fds=False
            )
            self.pid = own_children()[-1]
        elif word == "kill" and not alone:
            self.child.kill()
            self.child.wait()
        elif word in ("stop", "cont") and not alone:
            self.child.send_signal(signal.SIGSTOP if word == "stop" else signal.SIGCONT)
        elif word in ("cut", "mend"):
            state = "down" if word == "cut" else "up"
            subprocess.run(["ip", "link", "set", "eth0", state], check=True, env=TOOLS)
        elif word.split()[:1] in (["part"], ["join"]):
            part(word.split()[1:], word.startswith("part"))
        elif word in ("slow", "fast"):
            shape(self.plan["slow_rate" if word == "slow" else "rate"])
        ended = self.child.poll() if self.child is not None else None
        found = look_at(self.pid) if self.child is not None and ended is None else {}
        return {"pid": self.pid, "exit": ended, **found}


def serve(rank, listener):
    connection, _ = listener.accept()
    with connection, connection.makefile("rw", encoding="ascii") as stream:
        for line in stream:
            stream.write(json.dumps(rank.do(line.strip())) + "\n")
            stream.flush()
            if line.strip() == "end":
                return


def main():
    folder, number = sys.argv[1], os.environ["RANK"]
    rank = Rank(folder, number)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.join(folder, f"agent.{number}"))
        listener.listen(1)
        listener.settimeout(rank.plan["silence_s"])
        try:
            serve(rank, listener)
        finally:
            rank.do("kill")


if __name__ == "__main__":
    main()
