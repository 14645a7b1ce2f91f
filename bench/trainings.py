# SPDX-License-Identifier: Apache-2.0
"""Training runs that are kept: long comparisons share them with the next one that needs the same.

    kept = Trainings(folder, stamp, keep)             stamp: what was measured with; keep: see below
    kept.data("digits --train 2000 --test 1000")      a set that `shoal data` makes, once
    kept.run(folder, "--model", "lenet", ...)         `shoal train`'s JSON, measured once
    kept.sim("--sync", "diloco", ...)                 `shoal sim`'s

A run is known by all its arguments, so a comparison that was cut goes on where it stopped.
SHOAL_CLAIMS_PREFIX is a command to put in front of each, such as `nice -n 15`."""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHOAL = os.environ.get("SHOAL", os.path.join(ROOT, "build", "release", "shoal"))


def shoal(*args):
    """Standard output of one command, on one thread; SystemExit with its error."""
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")
    command = shlex.split(os.environ.get("SHOAL_CLAIMS_PREFIX", "")) + [SHOAL, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(command)}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def at_a_time(number):
    """A pool of so many; what still waits in it is dropped when one fails or all is ended."""
    pool = concurrent.futures.ThreadPoolExecutor(number)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def keep_file(path, _stamp, run):
    """Write a finished run."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(run, file)
    os.replace(path + ".new", path)


class Trainings:
    """stamp: whatever else a run depends on, beside its arguments. keep(path, stamp, run) writes a
    finished one, note(run, new) hears of each that is used."""

    def __init__(self, folder, stamp=None, keep=keep_file, note=None):
        self.folder, self.stamp, self.keep, self.note = folder, stamp, keep, note
        os.makedirs(os.path.join(folder, "runs"), exist_ok=True)

    def data(self, recipe, name=None):
        """The folder of `shoal data RECIPE`; its name, where the recipe is too long for one."""
        folder = os.path.join(self.folder, name or recipe.replace(" ", "").replace("--", "-"))
        if not os.path.exists(os.path.join(folder, "complete")):
            shutil.rmtree(folder, ignore_errors=True)  # one that was not finished
            shoal("data", *recipe.split(), "--out", folder)
            with open(os.path.join(folder, "complete"), "w", encoding="utf-8"):
                pass
        return folder

    def run(self, data, *args):
        """`shoal train --data FOLDER ARGS`'s result, measured if it is not there yet."""
        key = shlex.join([os.path.relpath(data, self.folder), *map(str, args)])
        return self._kept(key, "train", "--data", data, *args)

    def sim(self, *args):
        """`shoal sim ARGS`'s result likewise."""
        return self._kept(shlex.join(["sim", *map(str, args)]), "sim", *args)

    def _kept(self, key, *command):
        named = key + json.dumps(self.stamp, sort_keys=True)
        name = hashlib.sha256(named.encode()).hexdigest()[:20] + ".json"
        path = os.path.join(self.folder, "runs", name)
        new = not os.path.exists(path)
        if new:
            begin = time.monotonic()
            text = shoal(*command, "--json", "--quiet")
            run = {"run": key, "result": json.loads(text.splitlines()[-1])}
            run["seconds"] = round(time.monotonic() - begin, 2)
            self.keep(path, self.stamp, run)
        else:
            with open(path, encoding="utf-8") as file:
                run = json.load(file)
        if self.note is not None:
            self.note(run, new)
        return run["result"]
