# SPDX-License-Identifier: Apache-2.0
"""Trainings whose results are kept, for claims about accuracy.

    kept = Kept("ernn-error-rate")
    result = kept.train("lstm whole 1", ["--model", "lstm-asr", ...])  # looked up if it was run

One JSON file per training lies in build/claims/CLAIM/runs, under a hash of its name, its options
and what it was measured with (sources.py); quick runs use what full ones kept, and keep nothing; a
training that was cut off goes on from its checkpoint. SHOAL_CLAIMS_PREFIX is a command to put in
front of each training, such as `nice -n 15`."""

import hashlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time

import sources
from claim import ROOT

sys.path.insert(0, os.path.join(ROOT, "bench"))
from trainings import SHOAL, shoal

T95 = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132}  # Student, one-sided, by degrees of freedom


def has_verb(verb):
    """Whether this build has `shoal VERB`."""
    done = subprocess.run([SHOAL, verb, "--help"], capture_output=True, text=True, check=False)
    return done.returncode == 0


def bound(losses):
    """Mean and 95 % bound (one-sided, Student) of what was lost, over paired seeds."""
    mean = statistics.mean(losses)
    spread = statistics.stdev(losses) / math.sqrt(len(losses))
    return mean, mean + T95[len(losses) - 1] * spread


class Kept:
    """Folder of one claim's data and results."""

    def __init__(self, claim):
        self.folder = os.path.join(ROOT, "build", "claims", claim)
        self.stamp = sources.stamp(claim)
        os.makedirs(os.path.join(self.folder, "runs"), exist_ok=True)

    def _path(self, name, key):
        key = [*(str(word).replace(ROOT, "") for word in key), self.stamp]
        tag = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
        return os.path.join(self.folder, "runs", f"{name.replace(' ', '_')}-{tag}")

    def once(self, name, key, make):
        """make()'s object, or that of an earlier run with the same key."""
        path = self._path(name, key) + ".json"
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            sources.note(found, False)
            return found
        begin = time.monotonic()
        found = {**make(), "key": key}
        found["seconds"] = round(time.monotonic() - begin, 2)
        sources.keep(path, self.stamp, found)
        sources.note(found, True)
        return found

    def data(self, *words):
        """Folder of what `shoal data WORDS` makes, made once."""
        folder = os.path.join(self.folder, "-".join(map(str, words)).replace("--", ""))
        mark = os.path.join(folder, "complete")
        if not os.path.exists(mark):
            shutil.rmtree(folder, ignore_errors=True)  # one that was not finished
            about = shoal("data", *words, "--out", folder)
            with open(mark, "w", encoding="utf-8") as file:
                file.write(about)
        return folder

    def out(self, name, key):
        """--out of a training, with its newest checkpoint."""
        return self._path(name, key)

    def train(self, name, options, once_more=()):
        """Result of `shoal train` as JSON; `once_more`: options that make a fresh start (ADMM has
        several parts, which do not go on from a checkpoint)."""
        key = list(map(str, [*options, *once_more]))
        out = self.out(name, key)
        if sources.is_quick():
            shutil.rmtree(out, ignore_errors=True)  # of an earlier quick run, which is not kept

        def run():
            went = os.path.exists(os.path.join(out, "checkpoints", "latest"))
            if once_more and went:
                shutil.rmtree(out)
            extra = ["--resume", out] if went and not once_more else once_more
            text = shoal("train", *options, *extra, "--out", out, "--json", "--quiet")
            return {**json.loads(text.strip().splitlines()[-1]), "out": out}

        result = self.once(name, key, run)
        print(f"  {name}: {result['test_accuracy']:.2f} % correct", end="")
        rate = result.get("symbol_error_rate")
        print(f", {rate:.2f} % symbol errors" if rate is not None else "", flush=True)
        return result
