#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of kill-one-rank: run a command, hurt it if this is the victim, note what it says when.

    shoal run -n N --lab SPEC -- bench/claims/fault_rank.py FOLDER

FOLDER/plan.json: {"argv", "victim", "fault": "kill" | "stop" | "cut" | null, "after_s", "limit_s"}.
Writes FOLDER/RANK.json: {"lines": [[seconds, text]], "exit", "fault_at"}; the clock is the
machine's monotonic one, the same for all ranks. The wrapper outlives its command, so that the
launcher sees no rank fail and the survivors are left to themselves."""

import json
import os
import signal
import subprocess
import sys
import threading
import time


def hurt(child, fault):
    """Do the damage; the time just before it."""
    now = time.monotonic()
    if fault == "kill":
        child.send_signal(signal.SIGKILL)
    elif fault == "stop":
        child.send_signal(signal.SIGSTOP)
    elif fault == "cut":
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        subprocess.run(["ip", "link", "set", "eth0", "down"], check=True,
                       env={**os.environ, "PATH": path})
    else:
        sys.exit(f"fault_rank.py: unknown fault {fault}")
    return now


def listen(child, lines):
    for line in child.stderr:
        lines.append([time.monotonic(), line.rstrip()])


def main():
    folder, rank = sys.argv[1], int(os.environ["RANK"])
    with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
        plan = json.load(file)
    lines, fault_at = [], None
    child = subprocess.Popen(plan["argv"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, close_fds=False)
    reader = threading.Thread(target=listen, args=(child, lines))
    reader.start()
    limit_s = plan["limit_s"]
    if plan["fault"] is not None and plan["victim"] == rank:
        time.sleep(plan["after_s"])
        fault_at = hurt(child, plan["fault"])
        limit_s -= plan["after_s"]
    try:
        child.wait(limit_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        lines.append([time.monotonic(), "(no end: killed)"])
    reader.join()
    with open(os.path.join(folder, f"{rank}.json"), "w", encoding="utf-8") as file:
        json.dump({"lines": lines, "exit": child.returncode, "fault_at": fault_at}, file)


if __name__ == "__main__":
    main()
