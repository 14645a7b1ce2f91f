# SPDX-License-Identifier: Apache-2.0
"""Contests between Shoal and its rivals: who enters, how they take turns, what came out.

    contest.build()
    found = contest.hold(4, "rate=1gbit", [contest.shoal("ring"), contest.gloo("ring")],
                         contest.RANGES, rounds=5)
    found.time_us("shoal ring", 1 << 20)

All entrants run in one lab (turns.py), in turn within a round, the order turned by one from round
to round, so that a slow minute of the machine hits everybody. Figures are medians over rounds."""

import dataclasses
import json
import math
import os
import shutil
import statistics
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SHOAL = os.path.join(ROOT, "build", "release", "shoal")
PEERS = os.path.join(ROOT, "build", "peers")
CANNOT = 77


class Cannot(Exception):
    """This machine cannot measure; the text says why."""


class Failed(Exception):
    """A program that should run did not."""


@dataclasses.dataclass(frozen=True)
class Range:
    """Sizes from `smallest` to `largest` bytes by `factor`; each run times `iters` operations."""

    smallest: int
    largest: int
    factor: int
    iters: int
    warmup: int

    def sizes(self):
        size = self.smallest
        while size <= self.largest:
            yield size
            size *= self.factor

    def options(self):
        return ["-b", self.smallest, "-e", self.largest, "-f", self.factor, "-n", self.iters,
                "-w", self.warmup]


K, M = 1 << 10, 1 << 20
RANGES = (Range(64 * K, 1 * M, 4, 20, 3), Range(4 * M, 64 * M, 4, 2, 1))


@dataclasses.dataclass(frozen=True)
class Entrant:
    """A program with its settings. `argv` precedes the options of a range; iperf3 takes none."""

    name: str
    kind: str
    argv: tuple
    after: tuple = ()

    def step(self, sizes):
        options = [] if self.kind == "iperf" else sizes.options()
        words = [*self.argv, *options, *self.after]
        return {"name": self.name, "kind": self.kind, "argv": [str(word) for word in words]}


def shoal(collective, transport="tcp"):
    name = f"shoal {collective}" + ("" if transport == "tcp" else f" {transport}")
    return Entrant(name, "ranks", (SHOAL, "bench", "allreduce", "--json",
                                   "--collective", collective, "--transport", transport))


def gloo(algorithm):
    return Entrant(f"gloo {algorithm}", "ranks",
                   (os.path.join(PEERS, "gloo_allreduce"), "-a", algorithm, "-s", "{store}"))


def ps_sharded():
    return Entrant("sharded ps", "ranks", (os.path.join(PEERS, "ps_sharded"), "-s", "{store}"))


MPI_ALGORITHMS = {3: "recursive doubling", 4: "ring", 5: "segmented ring"}


def mpi(algorithm=None, network="tcp"):
    """Open MPI: as it chooses, or forced; over TCP, shared memory ("shm"), or UCX's ("ucx").
    Ranks that outnumber the cores yield while they wait, as its manual advises."""
    networks = {"tcp": ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self"),
                "shm": ("--mca", "pml", "ob1", "--mca", "btl", "vader,self"),
                "ucx": ("--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any",
                        "--mca", "pml_ucx_devices", "any", "-x", "UCX_TLS=posix,cma,self")}
    argv = (*networks[network], "--mca", "mpi_yield_when_idle", "1")
    name = "ompi" if network == "tcp" else f"ompi {network}"
    if algorithm is not None:
        argv += ("--mca", "coll_tuned_use_dynamic_rules", "1",
                 "--mca", "coll_tuned_allreduce_algorithm", algorithm)
        name += " " + MPI_ALGORITHMS[algorithm]
    return Entrant(name, "mpi", (*argv, os.path.join(PEERS, "mpi_allreduce"), "-a", name))


def iperf(seconds):
    """N flows at once, rank i to rank i + 1: what TCP itself carries around a ring."""
    return Entrant("iperf3 ring", "iperf", (seconds,))


def build():
    """Build the rivals; Cannot if their libraries are not installed."""
    if not os.path.exists(SHOAL):
        raise Cannot(f"{os.path.relpath(SHOAL, ROOT)} is not built: make build")
    missing = [tool for tool in ("mpirun", "iperf3", "nsenter") if shutil.which(tool) is None]
    if missing:
        raise Cannot(f"{', '.join(missing)} not installed: tools/deps.sh packages-peers.txt")
    for command in (["cmake", "-S", HERE, "-B", PEERS, "-G", "Ninja"], ["cmake", "--build", PEERS]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Cannot(f"{' '.join(command)}:\n{(done.stdout + done.stderr)[-800:]}")


class Found:
    """Rows of a contest, by entrant and size; every figure is the median over the rounds."""

    def __init__(self):
        self.rows, self.idles, self.errors = {}, {}, {}

    def add(self, result):
        name = result["name"]
        if "error" in result:
            self.errors[name] = result["error"]
            return
        if result["idle"] is not None:
            self.idles.setdefault(name, []).append(result["idle"])
        for row in result["rows"]:
            if row["wrong"]:
                raise Failed(f"{name}: {row['wrong']} wrong elements of {row['bytes']} bytes")
            self.rows.setdefault((name, row["bytes"]), []).append(row)

    def median(self, name, size, field):
        """None if the entrant has no such row."""
        rows = self.rows.get((name, size))
        return statistics.median(row[field] for row in rows) if rows else None

    def time_us(self, name, size):
        return self.median(name, size, "time_us")

    def names(self):
        return list(dict.fromkeys(name for name, _ in self.rows))

    def sizes(self):
        return sorted({size for _, size in self.rows if size > 0})

    def best(self, names, size):
        """(time, name) of the fastest of those that have a row of this size."""
        times = [(self.time_us(n, size), n) for n in names if self.time_us(n, size) is not None]
        if not times:
            raise Failed(f"none of {', '.join(names)} has a row of {size} bytes: {self.errors}")
        return min(times)

    def idle(self, name):
        """Median share of idle processors while the entrant ran."""
        return statistics.median(self.idles[name]) if self.idles.get(name) else None


def plan(entrants, ranges, rounds):
    """Steps of all rounds; an entrant without sizes runs once per round."""
    for number in range(rounds):
        turn = number % len(entrants)
        order = entrants[turn:] + entrants[:turn]
        for at, sizes in enumerate(ranges):
            for entrant in order:
                if at == 0 or entrant.kind != "iperf":
                    yield entrant.step(sizes)


def hold(ranks, lab, entrants, ranges=RANGES, rounds=5, limit_s=3600):
    """Run a contest; lab is a spec for --lab, or None for this host as it is."""
    found = Found()
    with tempfile.TemporaryDirectory(prefix="shoal-contest-") as folder:
        with open(os.path.join(folder, "plan.json"), "w", encoding="utf-8") as file:
            json.dump(list(plan(list(entrants), ranges, rounds)), file)
        command = [SHOAL, "run", "-n", str(ranks), *(["--lab", lab] if lab else []), "--",
                   os.path.join(HERE, "turns.py"), folder]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=limit_s)
        if done.returncode == CANNOT:
            raise Cannot(done.stderr.strip())
        if done.returncode != 0:
            said = done.stderr[-800:]
            raise Failed(f"{' '.join(command)}: exit status {done.returncode}: {said}")
        with open(os.path.join(folder, "results.jsonl"), encoding="utf-8") as file:
            for line in file:
                found.add(json.loads(line))
    return found


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(math.log(v) for v in values) / len(values))


def size_text(size):
    return f"{size // M} MB" if size >= M else f"{size // K} KB"


def table(found, names):
    """Markdown: a row per size, a column per entrant; milliseconds and CPU seconds per GB."""
    shown = [n for n in names if any((n, size) in found.rows for size in found.sizes())]
    lines = ["| size | " + " | ".join(shown) + " |", "|---" * (len(shown) + 1) + "|"]
    for size in found.sizes():
        cells = []
        for name in shown:
            time, cpu = found.time_us(name, size), found.median(name, size, "cpu_s_per_gb")
            cells.append("-" if time is None else f"{time / 1000:.2f} · {cpu:.2f}")
        lines.append(f"| {size_text(size)} | " + " | ".join(cells) + " |")
    first = shown[0]
    for label, field in (("time", "time_us"), ("CPU", "cpu_s_per_gb")):
        cells = []
        for name in shown:
            ratios = [found.median(name, s, field) / found.median(first, s, field)
                      for s in found.sizes() if found.median(name, s, field) is not None]
            cells.append(f"{geometric_mean(ratios):.2f}")
        lines.append(f"| **{label} / {first}'s** | " + " | ".join(cells) + " |")
    return lines
