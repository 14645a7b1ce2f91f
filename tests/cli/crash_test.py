# SPDX-License-Identifier: Apache-2.0
"""Runs that end at any moment: all ranks killed, one of them killed, the disk full, the power cut.
The folder is enough to go on, bit-equal to never having stopped, and in the end it holds nothing
that it would not hold otherwise.

SHOAL_CRASH_MOMENTS=200 tries so many moments (make soak), SHOAL_TEST_SEED=7 draws others,
SHOAL_CRASH_MOMENT=13 tries that one alone. What ranks do beside each other is in no seed: the
moment is that of a file operation or of a share of the run's time."""
import filecmp
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import power_cut
import shoal

SEED = int(os.environ.get("SHOAL_TEST_SEED", "20181"))
MOMENTS = int(os.environ.get("SHOAL_CRASH_MOMENTS", "12"))
ALONE = os.environ.get("SHOAL_CRASH_MOMENT")
STEPS = 20
FILES = ("common.safetensors", "rank-0.safetensors", "rank-1.safetensors")
ONES = ["lock", "run.json", "events.jsonl", "metrics.jsonl", "metrics.1.jsonl"]
LEFT = sorted([*ONES, "checkpoints/latest"] +
              [f"checkpoints/step-{step}/{file}" for step in (16, 20) for file in FILES])
SLOW = ["slowest.1.json", "slowest.json"]  # of a part that made a step, and ended
FULL = "mount -t tmpfs -o size=$2 tmpfs $1 && $3; code=$?; cp -a $1/. $4; exit $code"


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder)
                  for at, _, names in os.walk(folder) for name in names)


def is_alive(group):
    """Whether a process of it has not ended yet; one that was killed ends its system call first."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                state, _, of = file.read().rpartition(")")[2].split()[:3]
        except OSError:  # it has ended meanwhile
            continue
        if int(of) == group and state not in "ZX":
            return True
    return False


class Moment:
    """One end of one run, and going on."""

    def __init__(self, test, number):
        self.test, self.rng = test, random.Random(f"{SEED} {number}")
        self.room = os.path.join(test.folder, f"moment-{number}")
        self.out = os.path.join(self.room, "out")
        os.makedirs(self.out)
        self.told = []  # what happened

    def words(self):
        """Begin, or go on where something is there."""
        return self.test.words(self.out) if not os.path.exists(
            os.path.join(self.out, "run.json")) else ["train", "--resume", self.out, "--quiet"]

    def start(self, **env):
        return subprocess.Popen([os.path.abspath(shoal.SHOAL), *map(str, self.words())],
                                env=dict(os.environ, **env), start_new_session=True, text=True,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def end(self, job):
        """Its code, once it and all of its ranks have ended."""
        said = job.communicate(timeout=60)[1]
        shoal.wait_until(lambda: not is_alive(job.pid))
        self.told.append(f"code {job.returncode}: {said}")
        return job.returncode

    # ---------------------------------------------------------------- ways to end

    def at_an_operation(self, who, cut):
        """The layer kills; whether the power is cut as well."""
        disk = power_cut.Disk(self.out, tempfile.mkdtemp(dir=self.room))
        at = self.rng.randint(1, self.test.operations)
        with self.start(**disk.environment(at, who)) as job:
            self.end(job)
        self.told.append(disk.moment() or f"it ended before operation {at}")
        if cut:
            disk.cut(self.rng)

    def after_a_while(self, who):
        with self.start() as job:
            try:
                job.wait(timeout=self.rng.uniform(0, self.test.seconds))
            except subprocess.TimeoutExpired:
                ranks = shoal.ranks_of(job.pid)
                if who == "all":
                    os.killpg(job.pid, signal.SIGKILL)
                elif ranks:
                    os.kill(self.rng.choice(sorted(ranks.values())), signal.SIGKILL)
            self.end(job)

    def killed(self, who):
        if self.test.operations > 0 and self.rng.random() < 0.7:
            self.at_an_operation(who, cut=False)
        else:
            self.after_a_while(who)

    def full(self):
        """The disk is a small one, whose files go to another one then."""
        small = os.path.join(self.room, "small")
        os.mkdir(small)
        kib = 4 * self.rng.randint(1, self.test.bytes // 4096 + 4)
        words = " ".join(f"'{word}'" for word in
                         [os.path.abspath(shoal.SHOAL), *self.test.words(small)])
        r = subprocess.run(["unshare", "-rm", "sh", "-c", FULL.replace("$3", words), "sh", small,
                            f"{kib}k", "", self.out], capture_output=True, text=True, timeout=60,
                           check=False)
        self.told.append(f"{kib} KiB: code {r.returncode}: {r.stderr}")
        if r.returncode != 0:
            self.test.assertIn("No space left on device", r.stderr)
            self.test.assertEqual(1, r.returncode, r.stderr)

    def happen(self):
        ways = ["all", "one"] + ["full"] * self.test.namespaces
        ways += ["cut", "cut"] if self.test.operations > 0 else []
        way = self.rng.choice(ways)
        self.told.append(way)
        if way == "full":
            self.full()
        elif way == "cut":
            for _ in range(self.rng.choice((1, 1, 2, 3))):  # also as it goes on
                self.at_an_operation("all", cut=True)
        else:
            self.killed("all" if way == "all" else "self")

    # ---------------------------------------------------------------- going on

    def go_on(self):
        """The folder alone is enough from the moment that it says what run it is of."""
        has_run = os.path.exists(os.path.join(self.out, "run.json"))
        if not has_run:
            r = shoal.run("train", "--resume", self.out)
            self.test.assertEqual(2, r.returncode, r.stderr)
            self.test.assertFalse(os.path.exists(os.path.join(self.out, "checkpoints", "latest")))
        with self.start() as job:
            code = self.end(job)
        said = self.told[-1]
        done = "has already done 20 of 20 steps" in said
        self.test.assertEqual(2 if done else 0, code, said)
        self.test.assertNotRegex(said, "damaged|no valid|is not|may hold")

    def check(self):
        latest = os.path.join(self.out, "checkpoints", "latest")
        with open(latest, encoding="ascii") as file:
            self.test.assertEqual(f"step-{STEPS}\n", file.read())
        left = files_below(self.out)
        self.test.assertEqual(LEFT, [name for name in left if name not in SLOW])
        for name in set(SLOW) & set(left):
            with open(os.path.join(self.out, name), encoding="utf-8") as file:
                self.test.assertEqual("shoal train --out", json.load(file)["otherData"]["made_by"])
        for step in (16, 20):
            path = f"checkpoints/step-{step}/common.safetensors"
            self.test.assertTrue(filecmp.cmp(os.path.join(self.test.whole, path),
                                             os.path.join(self.out, path), shallow=False), path)
        with open(os.path.join(self.out, "events.jsonl"), encoding="utf-8") as file:
            self.test.assertTrue(all("time" in json.loads(line) for line in file))
        for name in ("metrics.jsonl", "metrics.1.jsonl"):
            with open(os.path.join(self.out, name), encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
            steps = [line["step"] for line in lines if "step" in line and "epoch" not in line]
            self.test.assertEqual(list(range(1, STEPS + 1)), steps, name)

    def run(self):
        self.happen()
        self.go_on()
        self.check()
        shutil.rmtree(self.room)


class Crash(unittest.TestCase):
    @classmethod
    def words(cls, out):
        words = ["train", "--model", cls.model, "--data", cls.data, "--workers", 2, "--batch", 12]
        words += ["--epochs", 2, "--no-eval", "--quiet", "--checkpoint-every", 4]
        return [*words, "--codec", "int8:ef", "--out", out]

    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.realpath(
            cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-crash-")))
        cls.data, cls.whole = os.path.join(cls.folder, "data"), os.path.join(cls.folder, "whole")
        cls.model = os.path.join(cls.folder, "m.json")
        with open(cls.model, "w", encoding="ascii") as file:
            json.dump({"name": "m", "input": [1, 28, 28],
                       "layers": ["flatten", "dense:out=32", "tanh", "dense:out=10"]}, file)
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 240, "--test", 20)
        assert r.returncode == 0, r.stderr
        os.mkdir(cls.whole)
        env, disk = {}, None
        if os.path.exists(power_cut.LAYER):
            disk = power_cut.Disk(cls.whole, tempfile.mkdtemp(dir=cls.folder))
            env = disk.environment()
        began = time.monotonic()
        r = shoal.run(*cls.words(cls.whole), env=env)
        cls.seconds = time.monotonic() - began
        assert r.returncode == 0, r.stderr
        cls.operations = disk.operations() if disk else 0
        most = [os.path.getsize(os.path.join(cls.whole, name)) for name in LEFT]
        cls.bytes = sum(most) * 3 // 2  # two checkpoints, and the one that is being written
        cls.namespaces = subprocess.run(
            ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", cls.data], capture_output=True,
            check=False).returncode == 0

    def test_whenever_a_run_ends_its_folder_goes_on(self):
        print(f"seed {SEED}, {MOMENTS} moments (repeat with SHOAL_TEST_SEED={SEED} "
              f"SHOAL_CRASH_MOMENTS={MOMENTS})", flush=True)
        self.assertEqual(sorted(LEFT + SLOW), files_below(self.whole))
        for number in [int(ALONE)] if ALONE else range(MOMENTS):
            moment = Moment(self, number)
            with self.subTest(moment=number, seed=SEED):
                try:
                    moment.run()
                except BaseException:
                    print(f"moment {number}:", *moment.told, sep="\n  ", flush=True)
                    raise


if __name__ == "__main__":
    shoal.main()
