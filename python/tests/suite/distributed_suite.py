#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own distributed suite (torch.testing._internal.distributed.distributed_test), asked of
the backend "shoal": distributed_suite.py [--write] [--limit SECONDS] [CASE...]

The suite knows Gloo, NCCL, MPI and UCC by name and asks for them. Here the name "gloo" means ours,
in the suite's own processes: what it asks of Gloo is asked of Shoal. What each case gave is
compared with distributed_suite.txt beside this file: another outcome is a failure, a case that it
does not know too. --write keeps what was seen; reasons are written by hand, and stay."""

import argparse
import datetime
import os
import re
import sys
import tempfile
import time
import unittest
from pathlib import Path

RANKS = 4
KEPT = Path(__file__).with_suffix(".txt")
LINE = re.compile(r"(\S+) (pass|fail|skip)(?:: (.*))?$")


def prepare():
    """What the suite wants in the environment, and Shoal by the name of Gloo."""
    os.environ.update(BACKEND="gloo", WORLD_SIZE=str(RANKS), USE_LIBUV="0")
    os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "60")
    os.environ["TEMP_DIR"] = tempfile.mkdtemp(prefix="shoal-suite-")
    os.environ["INIT_METHOD"] = f"file://{os.environ['TEMP_DIR']}/shared_init_file"
    import torch.distributed as dist

    import shoal  # noqa: F401

    dist.Backend._plugins["GLOO"] = dist.Backend._plugins["SHOAL"]


def cases():
    """The suite as a TestCase whose ranks are forked, so that PyTorch is imported once."""
    import torch
    from torch.testing._internal.distributed import distributed_test as suite

    # Profiles show Gloo's operations by names that begin with "gloo:"; we promise no such names.
    suite.PROFILING_SUPPORTED_BACKENDS.clear()
    suite.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.clear()

    class Suite(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Suite


class Outcomes(unittest.TestResult):
    """{case: (outcome, reason)}, told as they come."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def _put(self, test, outcome, reason=""):
        name = test._testMethodName
        self.found.setdefault(name, (outcome, reason))
        print(f"{name} {outcome}{': ' + reason if reason else ''}", flush=True)

    def addSuccess(self, test):
        self._put(test, "pass")

    def addSkip(self, test, reason):
        self._put(test, "skip", " ".join(reason.split()))

    def addFailure(self, test, error):
        text = str(error[1])
        found = re.findall(r"^\S*(?:Error|Exception|Lost|Mismatch)\b.*", text, re.M)
        self._put(test, "fail", " ".join((found or text.split("\n"))[0].split())[:200])

    addError = addFailure


def kept():
    """{case: (outcome, reason)} of the file."""
    found = {}
    for line in KEPT.read_text().splitlines():
        match = LINE.match(line)
        if match and not line.startswith("#"):
            found[match[1]] = (match[2], match[3] or "")
    return found


def write(found, torch):
    known = kept() if KEPT.exists() else {}
    lines = [f"# What PyTorch {torch.__version__} gave with {RANKS} ranks (distributed_suite.py)."]
    lines += ["# CASE OUTCOME: REASON. A skip has the suite's own reason, a failure ours."]
    for name, (outcome, reason) in sorted({**known, **found}.items()):
        if outcome == "fail" and known.get(name, ("",))[0] == "fail":
            reason = known[name][1]
        lines.append(f"{name} {outcome}{': ' + reason if reason else ''}")
    KEPT.write_text("\n".join(lines) + "\n")


def compare(found):
    """Sentences about outcomes that are not those kept."""
    known = kept()
    for name, (outcome, reason) in sorted(found.items()):
        if known.get(name, ("unknown",))[0] != outcome:
            yield f"{name}: {outcome}, kept as {known.get(name, ('unknown',))[0]} ({reason})"


def main():
    options = argparse.ArgumentParser(description=__doc__.split(":")[0])
    options.add_argument("--write", action="store_true", help=f"keep outcomes in {KEPT.name}")
    options.add_argument("--limit", type=float, default=900, help="seconds for all [900]")
    options.add_argument("cases", nargs="*", help="names of cases [all]")
    chosen = options.parse_args()
    try:
        prepare()
        suite = cases()
        import torch
    except ImportError as error:
        print(f"skipped: {error} (make check-frameworks installs it)")
        sys.exit(77)
    result, end = Outcomes(), time.monotonic() + chosen.limit
    names = chosen.cases or unittest.TestLoader().getTestCaseNames(suite)
    for name in names:
        if time.monotonic() > end:
            print(f"no time left after {len(result.found)} of {len(names)} cases")
            break
        suite(name).run(result)
    if chosen.write:
        write(result.found, torch)
    wrong = list(compare(result.found))
    print("\n".join(wrong))
    count = [sum(o == kind for o, _ in result.found.values()) for kind in ("pass", "fail", "skip")]
    print(f"suite: {count[0]} pass, {count[1]} fail, {count[2]} do not apply, of {len(names)}")
    sys.exit(1 if wrong or len(result.found) < len(names) else 0)


if __name__ == "__main__":
    main()
