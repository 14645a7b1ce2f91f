# SPDX-License-Identifier: Apache-2.0
"""What every claim program needs: its options, its goals, its last line.

    claim = Claim("ring-line-rate", __doc__)
    if not can_measure: claim.cannot("user namespaces are not allowed here")
    ...
    claim.report(value, {"median_of": 5, ...})

Goals stand in goals.json, nowhere else. Standard output is free for tables; the last line is the
result."""

import argparse
import ctypes
import ctypes.util
import json
import os
import shlex
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Programs of `make check`; mutants.py has others.
TESTS = os.environ.get("SHOAL_TESTS", os.path.join(ROOT, "build", "dev", "tests"))
# Those of bench/micro, which have the library inside, too.
BENCH = os.environ.get("SHOAL_BENCH", os.path.join(ROOT, "build", "release", "bench"))
# What Python loads, and the hardware; mutants.py has others of both, too.
LIBRARY = os.environ.get("SHOAL_LIBRARY", os.path.join(ROOT, "build", "release", "libshoal.so.0"))
RTL = os.environ.get("SHOAL_RTL", os.path.join(ROOT, "innet", "rtl"))
GOALS = os.path.join(HERE, "goals.json")
RESULTS = os.path.join(ROOT, "bench", "results", "claims.json")
CANNOT = 77
NO_QUICK = "there is no quick form: nothing that 40 s can show could fail; leave --quick out"
COMPARISONS = {
    ">=": lambda value, limit: value >= limit,
    "<=": lambda value, limit: value <= limit,
    "==": lambda value, limit: value == limit,
}


def load(path):
    """A JSON file, {} if there is none."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def meets(value, goal):
    """Whether a value meets a goal such as ">= 99.5"; NaN and None meet none."""
    comparison, limit = goal.split()
    return value is not None and COMPARISONS[comparison](value, float(limit))


def verdict(goals, value, detail):
    """The value meets its goal, and each figure named under "also" the one that stands there."""
    met = meets(value, goals["goal"])
    return met and all(meets(detail.get(k), goal) for k, goal in goals.get("also", {}).items())


def machine():
    """CPU model, the instruction sets that matter here, cores, and the core that OpenBLAS chose."""
    model, flags = "unknown", set()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            key, _, text = line.partition(":")
            if key.strip() == "model name":
                model = text.strip()
            elif key.strip() == "flags":
                flags = set(text.split())
    known = ["avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl"]
    found = {"cpu": model, "isa": " ".join(f for f in known if f in flags), "cores": os.cpu_count()}
    name = ctypes.util.find_library("openblas")
    if name:
        corename = ctypes.CDLL(name).openblas_get_corename
        corename.restype = ctypes.c_char_p
        found["openblas"] = corename().decode()
    return found


class Claim:
    """One run of one claim."""

    def __init__(self, name, doc):
        parser = argparse.ArgumentParser(description=doc)
        parser.add_argument("--quick", action="store_true", help="answer within 40 s")
        parser.add_argument("--seed", type=int, default=1, help="seed of everything random (1)")
        options = parser.parse_args()
        # Ended from outside, it still takes its folders and namespaces away.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        self.name, self.quick, self.seed = name, options.quick, options.seed
        entry = load(GOALS)[name]
        if options.quick and "quick" not in entry:
            parser.error(NO_QUICK)
        self.goals = entry["quick" if options.quick else "full"]
        print(f"{name}: {json.dumps(machine())}", flush=True)

    def report(self, value, detail):
        """Print the result as the last line and exit 0, whatever the verdict."""
        result = {
            "claim": self.name, "value": value, "unit": self.goals["unit"],
            "goal": self.goals["goal"], "ok": verdict(self.goals, value, detail),
            "detail": {**detail, "machine": machine()},
            "command": shlex.join([os.path.relpath(sys.argv[0], ROOT)] + sys.argv[1:]),
            "seed": self.seed,
        }
        import sources  # needs this module

        if sources.parts() is not None:
            result["parts"] = sources.parts()
        if self.quick:
            last = load(RESULTS).get(self.name)
            kept = ("value", "commit", "date", "seed")
            result["experiment"] = self.goals.get("experiment", "as the full run, shorter")
            result["recorded"] = last and {key: last.get(key) for key in kept}
        print(json.dumps(result), flush=True)
        sys.exit(0)

    def cannot(self, reason):
        """This machine cannot measure the claim."""
        print(f"{self.name}: cannot measure here: {reason}", file=sys.stderr)
        sys.exit(CANNOT)
