# SPDX-License-Identifier: Apache-2.0
"""What a figure depends on: which files it runs through (goals.json, "depends"), the commit that it
was measured at, and whether these files have changed since.

    stamp = sources.stamp("slow-link")     digest of its files, instruction set, cores, seed
    sources.changed("slow-link", "a5a0eef")  the first file that has changed since that commit

A kept cell is found by its stamp, so that no figure outlives the code that it was measured with."""

import functools
import glob
import hashlib
import json
import os
import subprocess
import sys

from claim import GOALS, ROOT, load, machine

WIRE = ["src/base", "src/loop", "src/kernel", "src/wire", "src/transport", "src/codec",
        "src/collective", "src/member", "src/relay", "src/meet", "src/watch", "src/ops",
        "src/endpoint", "src/carry", "src/alive", "src/calls", "src/comm", "src/reform",
        "src/aggregator", "include/shoal"]  # fmt: skip
SIMULATED = ["src/base", "src/codec", "src/collective", "src/sync", "src/driver", "src/model",
             "cli/cmd_sim.c"]  # fmt: skip
# Names that "depends" may use for several folders.
GROUPS = {
    "@wire": WIRE,
    "@lab": ["cli/lab*", "cli/launch*", "cli/throttle*"],
    "@allreduce": [*WIRE, "cli/bench_allreduce.c", "cli/lab*", "cli/launch*"],
    "@codec": ["src/base", "src/kernel", "src/codec", "cli/bench_codec.c", "cli/bench_time.c"],
    "@net": ["src/base", "src/kernel", "src/nn", "src/data", "src/model"],
    "@training": [*WIRE, "src/sync", "src/driver", "src/nn", "src/data", "src/model", "src/files",
                  "src/worker", "src/folder", "src/trace", "src/train",
                  "cli/train*", "cli/cmd_train.c", "cli/lab*", "cli/launch*"],
    "@simulated": SIMULATED,
    "@planned": ["src/base", "src/collective", "src/model", "src/plan"],
    "@python": [*WIRE, "python/shoal"],
    "@hardware": ["innet/rtl", "src/codec/inceptionn*", "src/nn/fixed*"],
}  # fmt: skip
# No figure changes with these.
COMMON = ["claim.py", "sources.py", "cells.py", "run.py", "tables.py"]


def git(*words):
    """Output of git in this tree; None where it cannot answer."""
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def depends(name, entry=None):
    """Paths and patterns of a claim, its own program with them."""
    entry = entry if entry is not None else load(GOALS).get(name, {})
    paths = [f"bench/claims/{name}"]
    for word in entry.get("depends", ["."]):
        paths += GROUPS.get(word, [word])
    return sorted(set(paths))


def files(paths):
    """The files behind them: those that git knows, or would; else those that lie there."""
    listed = git("ls-files", "-co", "--exclude-standard", "--", *paths)
    if listed is not None:
        return sorted(set(listed.splitlines()))
    found = []
    for path in paths:
        for top in glob.glob(os.path.join(ROOT, path)):
            inner = [os.path.join(d, f) for d, _, names in os.walk(top) for f in names]
            found += inner if os.path.isdir(top) else [top]
    return sorted({os.path.relpath(path, ROOT) for path in found})


@functools.lru_cache(maxsize=None)
def digest(name):
    """Of the contents of all files that a claim depends on."""
    sum_ = hashlib.sha256()
    for path in files(depends(name)):
        full = os.path.join(ROOT, path)
        if os.path.isfile(full) and os.path.basename(path) not in COMMON:
            with open(full, "rb") as file:
                sum_.update(path.encode() + b"\0" + hashlib.sha256(file.read()).digest())
    return sum_.hexdigest()[:24]


def stamp(name):
    """What a kept cell must have been measured with to be believed."""
    here = machine()
    seed = sys.argv[sys.argv.index("--seed") + 1] if "--seed" in sys.argv[:-1] else "1"
    return {"sources": digest(name), "isa": here["isa"], "cores": here["cores"], "seed": seed}


def is_quick():
    """A quick run keeps nothing, and is told nothing that was kept."""
    return "--quick" in sys.argv


@functools.lru_cache(maxsize=None)
def commit():
    """Short hash of the tree, + if it has changes beside what run.py writes; "" without git."""
    head = git("rev-parse", "--short", "HEAD")
    if head is None:
        return ""
    ours = (":!bench/results", ":!README.md", ":!docs/results.md")
    return head + ("+" if git("status", "--porcelain", "--", *ours) else "")


def exists(name):
    """Whether the history holds a commit; True where there is no git to ask."""
    return git("rev-parse", "HEAD") is None or git("cat-file", "-e", name + "^{commit}") is not None


def oldest(commits):
    """Of several, the one that was made first."""
    listed = git("log", "--no-walk", "--date-order", "--format=%h", *commits) if commits else None
    return listed.splitlines()[-1] if listed else (commits[0] if commits else commit())


def changed(name, since, entry=None):
    """The first file of a claim that is not as it was at that commit, or None."""
    found = git("diff", "--name-only", since, "--", *depends(name, entry))
    names = [path for path in (found or "").splitlines() if os.path.basename(path) not in COMMON]
    return names[0] if names else None


def keep(path, stamped, value):
    """Write a cell, with what it was measured with; not of a tree that has changes."""
    if is_quick() or commit().endswith("+"):
        return
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump({**value, "stamp": stamped, "commit": commit()}, file, indent=1)
    os.replace(path + ".new", path)


PARTS = []  # of the cells of this run: seconds, commit, and whether it was measured now


def note(cell, new):
    PARTS.append({"seconds": cell["seconds"], "commit": cell.get("commit", commit()), "new": new})


def parts():
    """What a result is made of, for the record; None: it has no cells."""
    if not PARTS:
        return None
    return {
        "cells": len(PARTS),
        "kept": sum(not part["new"] for part in PARTS),
        "seconds": round(sum(part["seconds"] for part in PARTS), 1),
        "commits": sorted({part["commit"] for part in PARTS}),
    }


