#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of lose-and-go-on: run a command, hurt it if this is the victim, and start it again.

    shoal run -n N --lab SPEC -- bench/claims/lose_rank.py FOLDER

FOLDER/plan.json: {"argv", "victim", "fault": "kill" | "stop" | "cut" | "pause" | null,
"after_steps", "again_s"}. The victim is hurt once it has made so many steps; a killed one is
started again after again_s seconds, a paused one goes on after them. Writes FOLDER/RANK.json:
{"exit", "fault_at", "again_at"}, of the machine's monotonic clock, the same for all ranks."""

import glob
import json
import os
import signal
import subprocess
import sys
import time

import fault_rank


def steps_done(folder):
    """Of all ranks: lines are written at once where members may change."""
    done = 0
    for path in glob.glob(os.path.join(folder, "out", "metrics*.jsonl")):
        with open(path, encoding="utf-8") as file:
            done = max(done, sum(1 for line in file if '"at_us"' in line))
    return done


def start(plan):
    return subprocess.Popen(plan["argv"], stdin=subprocess.DEVNULL, close_fds=False)


def main():
    folder, rank = sys.argv[1], int(os.environ["RANK"])
    with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
        plan = json.load(file)
    report = {"exit": None, "fault_at": None, "again_at": None}
    child = start(plan)
    if plan["fault"] is not None and plan["victim"] == rank:
        while child.poll() is None and steps_done(folder) < plan["after_steps"]:
            time.sleep(0.01)
        kind = plan["fault"]
        report["fault_at"] = fault_rank.hurt(child, "stop" if kind == "pause" else kind)
        if kind == "pause":
            time.sleep(plan["again_s"])
            child.send_signal(signal.SIGCONT)
        if plan["fault"] == "kill":
            child.wait()
            time.sleep(plan["again_s"])
            report["again_at"] = time.monotonic()
            child = start(plan)
    if plan["fault"] in ("stop", "cut") and plan["victim"] == rank:
        end = time.monotonic() + 60
        while time.monotonic() < end and not os.path.exists(os.path.join(folder, "over")):
            time.sleep(0.1)
        child.send_signal(signal.SIGKILL)
    report["exit"] = child.wait()
    with open(os.path.join(folder, f"{rank}.json"), "w", encoding="utf-8") as file:
        json.dump(report, file)
    if report["exit"] == 0:
        with open(os.path.join(folder, "over"), "w", encoding="utf-8"):
            pass


if __name__ == "__main__":
    main()
