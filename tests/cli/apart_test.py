# SPDX-License-Identifier: Apache-2.0
"""--checkpoint-every where replicas differ: each worker writes its own at its own time, and a run
goes on from them; where it could not go on the option is refused."""
import filecmp
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import shoal

STEPS, EVERY, WORKERS = 20, 5, 4
BY_ITERATION = ("d_psgd", "d_psgd:serial", "hop", "ripples:static", "ripples:static,section=2")
BY_TIME = ("ad_psgd", "ripples:smart", "hop:backup=1,staleness=2")
WITHOUT = ("hop:backup=1,skip=4", "local_sgd", "diloco", "noloco", "param_server:dedicated,async")


def events(out):
    try:
        with open(os.path.join(out, "events.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except OSError:
        return []


def latest(out):
    """Steps of the newest that is whole; 0: there is none."""
    try:
        with open(os.path.join(out, "checkpoints", "latest"), encoding="ascii") as file:
            return int(file.read().strip().split("-")[1])
    except OSError:
        return 0


def step_of(out, rank):
    """Of the last whole line of a rank's metrics."""
    with open(os.path.join(out, f"metrics.{rank}.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file if line.endswith("\n")]
    return max((line["step"] for line in lines if "step" in line), default=0)


class Apart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-apart-"))
        cls.data, cls.model = os.path.join(cls.folder, "data"), os.path.join(cls.folder, "m.json")
        with open(cls.model, "w", encoding="ascii") as file:
            json.dump({"name": "m", "input": [1, 28, 28],
                       "layers": ["conv:out=4,kernel=5,stride=2", "batchnorm", "relu", "flatten",
                                  "dense:out=10"]}, file)
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 240, "--test", 20)
        assert r.returncode == 0, r.stderr

    def out(self, name):
        return os.path.join(self.folder, "".join(c if c.isalnum() else "-" for c in name))

    def words(self, sync, out, *more):
        words = ["train", "--model", self.model, "--data", self.data, "--workers", WORKERS]
        words += ["--batch", 6, "--sync", sync, "--no-eval", "--out", out]
        return [*words, *shoal.usual({"--epochs": 2, "--checkpoint-every": EVERY}, more), *more]

    def train(self, *words, code=0, **env):
        r = shoal.run(*words, timeout=110, env=env)
        self.assertEqual(code, r.returncode, r.stderr)
        return r.stderr

    def start(self, sync, out):
        """A job that would go on for hours."""
        job = subprocess.Popen(
            [os.path.abspath(shoal.SHOAL), *map(str, self.words(sync, out, "--epochs", 100000,
                                                                "--compute-ms", 5, "--quiet"))],
            start_new_session=True, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, job)
        return job

    @staticmethod
    def end(job):
        """All of it at once."""
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()

    def cut(self, out, name):
        """The run as if it had been ended behind its last checkpoint but one."""
        to = self.out(name)
        shutil.copytree(out, to)
        shutil.rmtree(os.path.join(to, "checkpoints", f"step-{STEPS}"))
        with open(os.path.join(to, "checkpoints", "latest"), "w", encoding="ascii") as file:
            file.write(f"step-{STEPS - EVERY}\n")
        return to

    def same(self, a, b, step=STEPS):
        name = f"checkpoints/step-{step}/common.safetensors"
        return filecmp.cmp(os.path.join(a, name), os.path.join(b, name), shallow=False)

    def whole(self, sync):
        out = self.out(sync)
        self.train(*self.words(sync, out))
        there = sorted(os.listdir(os.path.join(out, "checkpoints")))
        self.assertEqual(["latest", f"step-{STEPS - EVERY}", f"step-{STEPS}"], there)
        written = [e["step"] for e in events(out) if e.get("event") == "checkpoint"]
        self.assertEqual(list(range(EVERY, STEPS + 1, EVERY)), written)
        return out

    def test_by_iterations_it_goes_on_bit_for_bit(self):
        for sync in BY_ITERATION:
            with self.subTest(sync=sync):
                out = self.whole(sync)
                again = self.cut(out, f"{sync} again")
                self.train("train", "--resume", again)
                self.assertTrue(self.same(out, again), "resumed, it ends with other weights")
                begun = [e["step"] for e in events(again) if e.get("event") == "resume"]
                self.assertEqual([STEPS - EVERY], begun)

    def test_others_go_on_as_well(self):
        for sync in BY_TIME:
            with self.subTest(sync=sync):
                again = self.cut(self.whole(sync), f"{sync} again")
                self.train("train", "--resume", again)
                self.assertEqual(STEPS, latest(again))

    def test_other_workers_begin_with_the_mean(self):
        again = self.cut(self.whole("d_psgd:graph=complete"), "fewer")
        folder = os.path.join(again, "checkpoints", f"step-{STEPS - EVERY}")
        sizes = {os.path.getsize(os.path.join(folder, f"rank-{r}.safetensors")) for r in range(4)}
        self.assertGreater(min(sizes), 2 * 4 * 5870)  # weights and momenta of each
        said = self.train("train", "--resume", again, "--workers", 3, "--quiet")
        self.assertIn("4 workers, this run has 3: all begin with the mean of their replicas", said)
        r = shoal.run("eval", "--from", again, "--json")
        self.assertEqual(0, r.returncode, r.stderr)

    def test_without_a_number_it_is_each_epoch(self):
        out = self.out("epochs")
        self.train(*[w for w in self.words("d_psgd", out, "--checkpoint-every", "-")
                     if w not in ("--checkpoint-every", "-")])
        written = [e["step"] for e in events(out) if e.get("event") == "checkpoint"]
        self.assertEqual([10, 20], written)

    def test_what_is_not_whole_is_passed_over(self):
        """Rank 2 has not got as far as the others when all are killed."""
        out = self.whole("hop:graph=complete")
        again, folder = self.cut(out, "torn"), os.path.join(out, "checkpoints", f"step-{STEPS}")
        torn = os.path.join(again, "checkpoints", f"step-{STEPS - 1}")
        shutil.copytree(folder, torn)
        for name in ("common", "rank-2"):
            os.unlink(os.path.join(torn, f"{name}.safetensors"))
        said = self.train("train", "--resume", again, SHOAL_LOG="info")
        self.assertIn("was not finished", said)
        self.assertTrue(self.same(out, again))
        self.assertFalse(os.path.exists(torn))

    def test_all_killed_it_goes_on(self):
        out, other = self.out("killed"), self.out("not killed")
        job = self.start("d_psgd", out)
        shoal.wait_until(lambda: latest(out) > 0 or job.poll() is not None, 60)
        self.end(job)
        shoal.wait_until(lambda: not self.is_held(out), 60)
        at = latest(out)
        self.assertGreater(at, 0)
        more = ("--epochs", 100000, "--steps", at + 2 * EVERY)
        said = self.train("train", "--resume", out, *more)
        begun = [e["step"] for e in events(out) if e.get("event") == "resume"]
        self.assertEqual(1, len(begun), said)
        self.assertGreaterEqual(begun[0], at)  # `latest` may be one behind
        self.train(*self.words("d_psgd", other, *more))
        self.assertTrue(self.same(out, other, at + 2 * EVERY))

    @staticmethod
    def is_held(out):
        r = shoal.run("runs", out, "--json", "--quick")
        return json.loads(r.stdout)["runs"][0]["state"] == "running"

    def test_a_lost_worker_ends_them(self):
        out = self.out("lost")
        job = self.start("hop:graph=complete", out)
        shoal.wait_until(lambda: latest(out) > 0, 60)
        os.kill(shoal.ranks_of(job.pid)[3], signal.SIGKILL)
        warned = lambda: [e for e in events(out) if "no more checkpoints" in e.get("text", "")]
        shoal.wait_until(warned, 60)
        told = step_of(out, 1)
        before = latest(out)
        shoal.wait_until(lambda: step_of(out, 1) > told + 3 * EVERY, 60)
        self.assertEqual(1, len(warned()))
        self.assertIn("--on-loss reform", warned()[0]["text"])
        self.assertEqual(before, latest(out))
        self.assertIsNone(job.poll())

    def test_where_it_could_not_go_on_it_is_refused(self):
        for sync in WITHOUT:
            with self.subTest(sync=sync):
                out = self.out(f"no {sync}")
                said = self.train(*self.words(sync, out), code=2)
                self.assertIn(f"--checkpoint-every does not go with --sync {sync}", said)
                self.assertIn("all_reduce, ", said)
                self.assertFalse(os.path.exists(out))


if __name__ == "__main__":
    shoal.main()
