#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every two options of `shoal train`, or of `shoal sim`, in one job, at least once: it is refused
in a sentence that names both, or it ends well with what it promises. README.md in this folder."""
import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import time
import traceback

import asked
import covering
import factors
import job
import looks
import sims

SIX = ("sync", "codec", "collective", "files", "loss", "launcher")


class Suite(asked.Asked):
    """What all jobs share: the command, data, a shell that stands for ssh, what rows promise."""

    def __init__(self, shoal, forms):
        super().__init__(shoal)
        self.rsh = os.path.join(self.folder, "rsh")
        with open(self.rsh, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\nexec sh -c "$2"\n')
        os.chmod(self.rsh, 0o700)
        samples = ("--train", job.SAMPLES, "--test", 40)
        self.make("digits", *samples)
        self.make("clicks", *samples, "--vocab", 2048)
        self.make("clicks", *samples, "--vocab", 2048, "--fields", 2, into="pairs")
        self.make("svmlight", "--vocab", 16384, "--test", 0.1, "--from", self.write(
            "text.svm", "".join(f"{n % 2} {n % 40 + 1}:1 {n + 41}:{n % 7 - 3}\n"
                                for n in range(job.SAMPLES + 36))))
        numbers = "".join(f"{i * i}, " for i in range(1000))
        self.make("text", "--tokens", "bytes", "--length", 8,
                  self.write("text.txt", numbers[:8 * 360]))
        for name, model in factors.MODELS.items():
            self.write(f"{name}.json", json.dumps(model))
        self.clusters = {n: self.write(f"lab-{n}.json", json.dumps({**factors.CLUSTER, "hosts": [
            {"count": n, "nic": "1gbit", "nic_down": "2gbit"}]})) for n in range(1, 9)}  # fmt: skip
        syncs = factors.listed(self.shoal, "syncs")
        self.survivors = {s["name"] for s in syncs if "survives losses" in s["traits"]}
        self.exact = {s["name"] for s in syncs if "replicas equal after each step" in s["traits"]}
        codecs = factors.listed(self.shoal, "codecs")
        self.rates = {c["name"]: c["bytes_per_element"]
                      for c in codecs if "fixed rate" in c["traits"]}
        self.lossless = {c["name"] for c in codecs if "lossless" in c["traits"]}
        self.lab = self.lab_works()
        self.factors = factors.factors(self.shoal, forms)
        self.started = {}
        for words in self.factors["model"]:
            self.train_one(words.split()[1])

    def data(self, model):
        kinds = {"svm:vocab=16384,length=8": "svmlight",
                 os.path.join(self.folder, "clicks.json"): "clicks",
                 os.path.join(self.folder, "dlrm.json"): "clicks",
                 os.path.join(self.folder, "ncf.json"): "pairs",
                 os.path.join(self.folder, "llama.json:parts"): "text",
                 os.path.join(self.folder, "bert.json:parts"): "text"}
        return os.path.join(self.folder, kinds.get(model, "digits"))

    def train_one(self, model):
        """A run of one step to start from."""
        path = model.replace("@", self.folder + "/")
        if path in self.started:
            return
        out = os.path.join(self.folder, f"start-{len(self.started)}")
        subprocess.run([self.shoal, "train", "--model", path, "--data", self.data(path), "--steps",
                        "1", "--no-eval", "--quiet", "--out", out], check=True, timeout=60,
                       capture_output=True)  # fmt: skip
        self.started[path] = out

    def start(self, model):
        return self.started[model]

    def lab_works(self):
        probe = [self.shoal, "run", "-n", "1", "--lab", "rate=1gbit", "--", "true"]
        return subprocess.run(probe, capture_output=True, timeout=60, check=False).returncode == 0

    def bases(self):
        return factors.bases(self.factors)

    def senseless(self, row):
        """What this suite cannot mean; the command may take it."""
        words = " ".join(self.words(row))
        one = "@workers 1" in words or "--no-exchange" in words or "@launcher simulate" in words
        twice = "@resume" in words or "@term" in words
        return ("@kill" in words and (one or twice)) or (
            "@launcher lab" in words and not self.lab) or (
            "@launcher hosts" in words and "@kill" in words)

    def ask(self, row):
        """(code, text) of a dry run; code None: senseless here."""
        key = tuple(sorted(row.items()))
        if key not in self.answers:
            if self.senseless(row):
                self.answers[key] = (None, "")
            else:
                one = job.Job(self, f"dry-{len(self.answers)}-{os.urandom(4).hex()}",
                              self.words(row))
                self.answers[key] = one.dry_run()
                one.folder.drop()
        return self.answers[key]

    def job(self, name, row):
        return job.Job(self, name, self.words(row))

    def look(self, one):
        looks.run(one)


def run_row(suite, index, row, again):
    """A row that fails is run again as often as that is allowed; that it had failed is printed."""
    for attempt in range(again + 1):
        done = attempt_row(suite, f"row-{index}-{attempt}", index, row)
        if done[2] is None or attempt == again:
            return done
        print(f"FLAKY row {index}, run again: {done[2]}", flush=True)
    return done


def attempt_row(suite, name, index, row):
    one = suite.job(name, row)
    begin = time.monotonic()
    try:
        suite.look(one)
        one.folder.drop()
    except job.Fault as fault:
        return index, time.monotonic() - begin, f"{fault}", one.command()
    except Exception:  # ours: the other rows are run all the same
        return index, time.monotonic() - begin, traceback.format_exc(), one.command()
    finally:
        one.end_all()
    return index, time.monotonic() - begin, None, None


def run_rows(suite, chosen, args):
    faults, seconds = [], []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        futures = [pool.submit(run_row, suite, i, row, args.again) for i, row in chosen]
        for done in concurrent.futures.as_completed(futures):
            index, took, fault, command = done.result()
            seconds.append((took, index))
            if fault is not None:
                words = " ".join(filter(None, suite.words(dict(chosen)[index])))
                faults.append(f"row {index} ({words}): {fault}\n  {' '.join(command)}")
                print(f"FAULT {faults[-1]}", flush=True)
            elif not args.quiet:
                print(f"row {index}: ok, {took:.1f} s", flush=True)
    return faults, sorted(seconds, reverse=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--of", choices=("train", "sim"), default="train")
    parser.add_argument("--strength", type=int, default=2,
                        help="3: triples of " + ", ".join(SIX) + ", at default keys")
    parser.add_argument("--part", default="1/1", help="K/N: the K-th of N parts; commit/N")
    parser.add_argument("--rest", action="store_true", help="all but that part")
    parser.add_argument("--only", type=int, nargs="*", help="these rows")
    parser.add_argument("--jobs", type=int, default=2 * os.cpu_count() + 1)
    parser.add_argument("--again", type=int, default=0, help="times that a failing row is repeated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--refused", action="store_true", help="print what is refused, and why")
    parser.add_argument("--list", action="store_true", help="print the rows, run none")
    parser.add_argument("--quiet", action="store_true", help="say what fails only")
    return parser.parse_args()


def part_of(text):
    """(K, N) of "K/N"; "commit/N": a part that the commit chooses, so that in time all are run."""
    part, parts = text.split("/")
    if part == "commit":
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True,
                              cwd=os.path.dirname(os.path.abspath(__file__)), check=False)
        part = int(head.stdout[:8] or "0", 16) % int(parts) + 1
    return int(part), int(parts)


def chosen_rows(args, rows):
    part, parts = part_of(args.part)
    if args.only is not None:
        return [(i, rows[i]) for i in args.only]
    return [(i, row) for i, row in enumerate(rows)
            if (i % parts == (part - 1) % parts) != args.rest]


def main():
    args = arguments()
    if os.environ.get("SHOAL_SKIP_COMBOS") and not args.list:
        print("combos: left out, as SHOAL_SKIP_COMBOS is set: another step runs them")
        return 77
    begin = time.monotonic()
    names = SIX if args.strength == 3 else None
    shoal = os.environ.get("SHOAL") or "build/release/shoal"
    suite = sims.Sims(shoal) if args.of == "sim" else Suite(shoal, forms=names is None)
    suite.ask_all(args.jobs, names)
    array = covering.Array(suite.factors, suite.bases(), suite.accepts,
                           strength=args.strength, names=names, seed=args.seed)
    suite.remember()
    faults, senseless = asked.refusals(suite, array.refused) if args.strength == 2 else ([], 0)
    print(f"{len(array.rows)} rows of strength {args.strength}, seed {args.seed}; refused: "
          f"{len(array.refused) - senseless}, not for this suite: {senseless}; "
          f"{time.monotonic() - begin:.0f} s to make", flush=True)
    for fault in faults:
        print(f"FAULT {fault}")
    for name, text in suite.alone:
        print(f"refused with everything: {name}: {text.splitlines()[0] if text else 'no reason'}")
    if args.refused:
        for part in array.refused:
            print(f"  {asked.name_of(suite, part)}: "
                  f"{suite.ask(covering.complete(part, suite.bases())[0])[1]}")
    chosen = chosen_rows(args, array.rows)
    if args.list:
        for i, row in chosen:
            print(i, json.dumps(" ".join(filter(None, suite.words(row)))))
        return 0
    found, seconds = run_rows(suite, chosen, args)
    faults += found
    print("slowest:", ", ".join(f"row {i} {s:.1f} s" for s, i in seconds[:5]))
    print(f"{100 * (len(chosen) - len(found)) // max(1, len(chosen))}% tests passed, "
          f"{len(faults)} tests failed out of {len(chosen)}")
    if not faults:
        shutil.rmtree(suite.folder)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
