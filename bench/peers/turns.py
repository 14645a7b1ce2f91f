#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank's part of a contest: run the plan's programs in turn, all ranks together.

    shoal run -n N [--lab SPEC] -- bench/peers/turns.py FOLDER

FOLDER holds plan.json, a list of steps {"name", "kind", "argv"}, and is shared by the ranks. Rank 0
adds results.jsonl, one line per step: {"name", "rows", "idle", "seconds"} or {"name", "error"}. So
rivals meet in the same namespaces, behind the same links, within seconds of each other.

kinds: "ranks" every rank starts argv; "mpi" rank 0 starts mpirun with argv, whose daemons enter the
other ranks' namespaces; "iperf" each rank sends to the next one, all at once, for argv[0] seconds.
{store} in argv is a fresh folder of the step."""

import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
IPERF_PORT = 5201
STEP_LIMIT_S = 300


class Hub:
    """Ranks meet here: a socket in FOLDER, which network namespaces do not divide."""

    def __init__(self, folder, rank, ranks):
        self.rank, path = rank, os.path.join(folder, "hub")
        if rank == 0:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path + ".new")
            listener.listen(ranks)
            os.rename(path + ".new", path)
            links = [listener.accept()[0] for _ in range(ranks - 1)]
            files = [link.makefile("rw", encoding="utf-8") for link in links]
            self.files = dict(sorted((json.loads(f.readline()), f) for f in files))
        else:
            link = socket.socket(socket.AF_UNIX)
            until = time.monotonic() + 30
            while not os.path.exists(path) and time.monotonic() < until:
                time.sleep(0.01)
            link.connect(path)
            self.files = {0: link.makefile("rw", encoding="utf-8")}
            self._write(0, rank)

    def _write(self, rank, value):
        self.files[rank].write(json.dumps(value) + "\n")
        self.files[rank].flush()

    def _read(self, rank):
        line = self.files[rank].readline()
        if not line:
            sys.exit(f"turns.py: rank {rank} left")
        return json.loads(line)

    def exchange(self, value):
        """Every rank's value, by rank; also a barrier."""
        if self.rank != 0:
            self._write(0, value)
            return self._read(0)
        values = [value] + [self._read(rank) for rank in self.files]
        for rank in self.files:
            self._write(rank, values)
        return values


class Idle(threading.Thread):
    """Median share of processor time that nobody used, in windows of 0.2 s. The median leaves out
    the starts and ends of programs."""

    def __init__(self):
        super().__init__(daemon=True)
        self.shares, self.over = [], threading.Event()
        self.start()

    @staticmethod
    def ticks():
        with open("/proc/stat", encoding="ascii") as file:
            fields = [int(f) for f in file.readline().split()[1:9]]
        return fields[3] + fields[4], sum(fields)  # idle and waiting for disks; all

    def run(self):
        before = self.ticks()
        while not self.over.wait(0.2):
            now = self.ticks()
            if now[1] > before[1]:
                self.shares.append((now[0] - before[0]) / (now[1] - before[1]))
            before = now

    def stop(self):
        self.over.set()
        self.join()
        shares = sorted(self.shares)
        return round(shares[len(shares) // 2], 4) if shares else None


def lab_address(rank):
    """The address that MASTER_ADDR implies for a rank: ranks of a lab count up from rank 0's."""
    base, last = os.environ["MASTER_ADDR"].rsplit(".", 1)
    return os.environ["MASTER_ADDR"] if base.startswith("127.") else f"{base}.{int(last) + rank}"


def in_lab():
    return not os.environ["MASTER_ADDR"].startswith("127.")


def run_program(argv, environment):
    """(standard output, error or None)."""
    try:
        done = subprocess.run(argv, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, close_fds=False, check=False,
                              timeout=STEP_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    if done.returncode != 0:
        said = done.stderr.strip()[-400:]
        return done.stdout, f"exit status {done.returncode}: {said}"
    return done.stdout, None


def run_ranks(step, hub):
    """Every step gets a port of its own: the last one's may still wait for its close."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = hub.exchange(probe.getsockname()[1])[0]
    return run_program(step["argv"], {"MASTER_PORT": str(port)})


def run_mpi(step, hub, folder):
    """mpirun on rank 0; the others stay, since their namespaces live as long as they do."""
    here = [lab_address(hub.rank), os.readlink("/proc/self")]
    everybody = hub.exchange(here)
    if hub.rank != 0:
        return "", None
    hosts = os.path.join(folder, "hosts")
    with open(hosts, "w", encoding="ascii") as file:
        file.writelines(f"{address} {pid}\n" for address, pid in everybody)
    command = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-n", str(len(everybody))]
    if in_lab():
        command += ["--host", ",".join(address for address, _ in everybody),
                    "--mca", "plm_rsh_agent", os.path.join(HERE, "rsh"),
                    "--mca", "oob_tcp_if_include", "eth0", "--mca", "btl_tcp_if_include", "eth0"]
    else:
        command += ["--oversubscribe"]
    # As if no launcher had set torchrun's variables: Open MPI's own count.
    return run_program(command + step["argv"], {"PEERS_HOSTS": hosts, "TMPDIR": folder})


def iperf_once(seconds, to, ranks, hub):
    """One flow of the ring; rank 0 gets a row. CPU counts sender and receiver."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    port = str(IPERF_PORT + (0 if in_lab() else hub.rank))
    server = subprocess.Popen(["iperf3", "-s", "-1", "-p", port, "--forceflush"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    while "listening" not in server.stdout.readline():
        if server.poll() is not None:
            return "", "iperf3 -s does not listen"
    hub.exchange("listening")
    to_port = str(IPERF_PORT + (0 if in_lab() else to))
    out, error = run_program(["iperf3", "-c", lab_address(to), "-p", to_port, "-t", str(seconds),
                              "-O", "1", "-J"], {})
    server.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    bits = json.loads(out)["end"]["sum_received"]["bits_per_second"] if not error else 0
    flows = hub.exchange({"bits": bits, "cpu": cpu, "error": error})
    errors = [flow["error"] for flow in flows if flow["error"]]
    if errors:
        return "", errors[0]
    rate = sum(flow["bits"] for flow in flows) / ranks
    line = float(os.environ.get("SHOAL_LINE_RATE", 0))
    # A ring moves 2 (N - 1) / N bytes per byte reduced; the second that -O leaves out costs, too.
    moved = rate / 8 * (seconds + 1) * ranks / (2 * (ranks - 1)) if ranks > 1 else 1
    row = {"bytes": 0, "ranks": ranks, "collective": "iperf3", "busbw_gb_s": rate / 8e9,
           "slowest_gb_s": min(flow["bits"] for flow in flows) / 8e9,
           "line_percent": round(100 * rate / line, 3) if line else 0,
           "cpu_s_per_gb": sum(f["cpu"] for f in flows) / ranks / moved * 1e9, "wrong": 0}
    return json.dumps(row), None


def rows_of(output):
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def take_turn(step, number, hub, ranks, folder):
    store = os.path.join(folder, f"store{number}")
    os.makedirs(store, exist_ok=True)
    step = {**step, "argv": [str(word).replace("{store}", store) for word in step["argv"]]}
    hub.exchange("start")
    idle, begin = Idle() if hub.rank == 0 else None, time.monotonic()
    if step["kind"] == "mpi":
        output, error = run_mpi(step, hub, folder)
    elif step["kind"] == "iperf":
        output, error = iperf_once(int(step["argv"][0]), (hub.rank + 1) % ranks, ranks, hub)
    else:
        output, error = run_ranks(step, hub)
    seconds, share = time.monotonic() - begin, idle.stop() if idle else None
    errors = [e for e in hub.exchange(error) if e]
    if errors:
        return {"name": step["name"], "error": errors[0]}
    return {"name": step["name"], "rows": rows_of(output), "idle": share,
            "seconds": round(seconds, 2)}


def main():
    folder = sys.argv[1]
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
        plan = json.load(file)
    hub = Hub(folder, rank, ranks)
    for number, step in enumerate(plan):
        result = take_turn(step, number, hub, ranks, folder)
        if rank == 0:
            with open(os.path.join(folder, "results.jsonl"), "a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
