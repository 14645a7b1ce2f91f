# SPDX-License-Identifier: Apache-2.0
"""Run folders: one holder, no second run over a first one, damage named and the older checkpoint
taken, metrics cut back to where a run goes on."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

import shoal


def newest(out):
    with open(os.path.join(out, "checkpoints", "latest"), encoding="ascii") as file:
        return os.path.join(out, "checkpoints", file.read().strip())


def flip(path, at):
    """One bit of a file."""
    with open(path, "r+b") as file:
        file.seek(at if at >= 0 else os.path.getsize(path) + at)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))


def steps_of(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [line["step"] for line in lines if "step" in line and "epoch" not in line]


class Folders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-folders-"))
        cls.data = os.path.join(cls.folder, "data")
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 240, "--test", 20)
        assert r.returncode == 0, r.stderr
        cls.whole, cls.twelve = (os.path.join(cls.folder, name) for name in ("whole", "twelve"))
        for words in (cls.words(cls.whole), cls.words(cls.twelve, "--steps", 12)):
            r = shoal.run(*words)
            assert r.returncode == 0, r.stderr

    @classmethod
    def words(cls, out, *more, workers=2):
        words = ["train", "--model", "mlp-small", "--data", cls.data, "--workers", workers]
        words += ["--batch", 12, "--no-eval", "--quiet", "--checkpoint-every", 4]
        words += [*shoal.usual({"--epochs": 2}, more), "--codec", "int8:ef"]
        return [*words, "--out", out, *more]

    def out(self, name):
        return os.path.join(self.folder, name)

    def train(self, out, *more, code=0, **kwargs):
        r = shoal.run(*self.words(out, *more, **kwargs))
        self.assertEqual(code, r.returncode, r.stderr)
        return r.stderr

    def weights(self, out):
        with open(os.path.join(newest(out), "common.safetensors"), "rb") as file:
            return file.read()

    def go_on(self, out):
        return self.train(out, "--resume", out, "--steps", 20)

    def cut(self, name):
        """The run that was stopped at its twelfth step of twenty, once more."""
        out = self.out(name)
        shutil.copytree(self.twelve, out)
        return out

    def test_a_second_run_leaves_the_first_alone(self):
        before = steps_of(os.path.join(self.whole, "metrics.jsonl"))
        for workers in (1, 2):
            said = self.train(self.whole, code=2, workers=workers)
            self.assertIn("holds a run already", said)
            self.assertIn(f"--resume {self.whole}", said)
        self.assertEqual(before, steps_of(os.path.join(self.whole, "metrics.jsonl")))

    def test_two_at_once(self):
        out, other = self.out("shared"), self.cut("elsewhere")
        argv = [shoal.SHOAL, *map(str, self.words(out, "--compute-ms", 40))]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as first:
            metrics = os.path.join(out, "metrics.jsonl")
            shoal.wait_until(lambda: os.path.exists(metrics))
            r = shoal.run(*self.words(out, "--resume", other, "--steps", 20))
            self.assertNotEqual(0, r.returncode)
            self.assertIn("is in use by another run (process ", r.stderr)
            self.assertIn(f"rank 1: rank 0 may not have the run folder {out}", r.stderr)
            self.assertNotIn("lost", r.stderr)  # nobody is
            self.assertEqual(0, first.wait(timeout=60), first.stderr.read())

    def test_going_on_is_bit_equal_and_metrics_have_each_step_once(self):
        out = self.cut("half")
        with open(os.path.join(out, "metrics.jsonl"), "a", encoding="ascii") as file:
            file.write('{"step": 13, "loss": 1}\n{"step": 14, "lo')  # killed behind the checkpoint
        self.go_on(out)
        self.assertEqual(self.weights(self.whole), self.weights(out))
        steps = steps_of(os.path.join(out, "metrics.jsonl"))
        self.assertEqual(steps_of(os.path.join(self.whole, "metrics.jsonl")), steps)

    def test_a_damaged_checkpoint_is_named_and_the_older_one_taken(self):
        for name, file, at in (("a", "common.safetensors", -5), ("b", "rank-1.safetensors", -9),
                               ("c", "common.safetensors", 100)):
            with self.subTest(file=file, at=at):
                out = self.cut("damaged-" + name)
                flip(os.path.join(newest(out), file), at)
                said = self.go_on(out)
                self.assertIn(f"step-12/{file}", said)
                self.assertIn("going on from", said)
                self.assertEqual(self.weights(self.whole), self.weights(out))

    def test_damage_of_all_checkpoints_is_an_error(self):
        out = self.cut("lost")
        for step in (8, 12):
            flip(os.path.join(out, f"checkpoints/step-{step}/common.safetensors"), -5)
        said = self.train(out, "--resume", out, "--steps", 20, code=1)
        self.assertIn("its bytes are not those that were written", said)

    def test_nothing_but_the_two_newest_stays(self):
        out = self.cut("left")
        with open(os.path.join(newest(out), "rank-0.safetensors.tmp77"), "wb") as file:
            file.write(b"of a process that was killed")
        self.go_on(out)
        found = sorted(os.listdir(os.path.join(out, "checkpoints")))
        self.assertEqual(["latest", "step-16", "step-20"], found)
        for step in ("step-16", "step-20"):
            names = sorted(os.listdir(os.path.join(out, "checkpoints", step)))
            self.assertEqual(["common.safetensors", "rank-0.safetensors", "rank-1.safetensors"],
                             names)

    def test_nothing_depends_on_latest(self):
        """Whichever bit of it flips, and without it, the newest whole checkpoint is taken."""
        for bit in [*range(4, 8 * len("step-12") + 8, 9), None]:
            with self.subTest(bit=bit):
                out = self.cut(f"latest-{bit}")
                path = os.path.join(out, "checkpoints", "latest")
                with open(path, "rb") as file:
                    text = bytearray(file.read())
                if bit is not None:
                    text[bit // 8] ^= 1 << bit % 8
                with open(path, "wb") as file:
                    file.write(text)
                if bit is None:
                    os.unlink(path)
                self.go_on(out)
                self.assertEqual(self.weights(self.whole), self.weights(out))

    def test_an_unfinished_checkpoint_is_passed_over_and_removed(self):
        out, path = self.cut("unfinished"), "checkpoints/step-16"
        shutil.copytree(os.path.join(self.whole, path), os.path.join(out, path))
        os.unlink(os.path.join(out, path, "rank-1.safetensors"))
        self.train(out, "--resume", out, "--steps", 13)
        self.assertEqual(["latest", "step-12", "step-13"],
                         sorted(os.listdir(os.path.join(out, "checkpoints"))))
        self.go_on(out)
        self.assertEqual(self.weights(self.whole), self.weights(out))

    def test_a_run_that_was_killed_before_its_first_checkpoint_begins_once_more(self):
        out = self.cut("early")
        shutil.rmtree(os.path.join(out, "checkpoints"))
        os.makedirs(os.path.join(out, "checkpoints", "step-4"))  # it was about to write it
        self.go_on(out)
        self.assertEqual(self.weights(self.whole), self.weights(out))
        self.assertEqual(list(range(1, 21)), steps_of(os.path.join(out, "metrics.jsonl")))
        os.unlink(os.path.join(out, "run.json"))
        shutil.rmtree(os.path.join(out, "checkpoints"))
        said = self.train(out, "--resume", out, code=1)  # of what, nobody knows
        self.assertIn("no checkpoint to go on from", said)

    def test_a_first_checkpoint_that_was_not_finished_is_no_damage(self):
        out = self.cut("first")
        shutil.rmtree(os.path.join(out, "checkpoints"))
        path = "checkpoints/step-8/rank-0.safetensors"
        os.makedirs(os.path.join(out, os.path.dirname(path)))
        shutil.copy(os.path.join(self.twelve, path), os.path.join(out, path))
        self.assertNotIn("W r", self.go_on(out))
        self.assertEqual(self.weights(self.whole), self.weights(out))

    def test_a_run_that_was_killed_behind_its_last_checkpoint_is_put_in_order(self):
        """By whoever asks it to go on: `latest` was about to move, and an old one to go."""
        out = self.out("done")
        shutil.copytree(self.whole, out)
        shutil.copytree(os.path.join(self.twelve, "checkpoints/step-12"),
                        os.path.join(out, "checkpoints/step-12"))
        with open(os.path.join(out, "checkpoints", "latest"), "w", encoding="ascii") as file:
            file.write("step-16\n")
        self.assertIn("has already done", self.train(out, "--resume", out, code=2))
        self.assertEqual("step-20", os.path.basename(newest(out)))
        self.assertEqual(["latest", "step-16", "step-20"],
                         sorted(os.listdir(os.path.join(out, "checkpoints"))))

    def test_changed_metrics_are_named(self):
        out = self.cut("metrics")
        flip(os.path.join(out, "metrics.1.jsonl"), 40)
        said = self.go_on(out)
        self.assertIn("metrics.1.jsonl is damaged", said)
        self.assertNotIn("metrics.jsonl is damaged", said)
        self.assertEqual(self.weights(self.whole), self.weights(out))

    def test_the_folder_is_held_after_rank_0_has_died(self):
        """By those that go on without it; the next run gets it when the last of them has ended."""
        out = self.out("orphans")
        words = self.words(out, "--compute-ms", 25, "--on-loss", "reform", "--epochs", 9)
        argv = [shoal.SHOAL, *map(str, words)]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as job:
            latest = os.path.join(out, "checkpoints", "latest")
            shoal.wait_until(lambda: os.path.exists(latest))
            os.kill(shoal.ranks_of(job.pid)[0], signal.SIGKILL)
            lock = pathlib.Path(out, "lock")
            shoal.wait_until(lambda: "epoch 1" in lock.read_text(encoding="ascii"))
            said = self.train(out, "--resume", out, "--on-loss", "stop", code=2, workers=1)
            self.assertIn("is in use by another run (process ", said)
            self.assertIn("members' epoch 1", said)
            stderr = job.communicate(timeout=60)[1]
            self.assertEqual(0, job.returncode, stderr)
        said = self.train(out, "--resume", out, code=2)
        self.assertIn(" already, and --epochs 2 ends at 20", said)

    def test_workers_that_exchange_nothing_write_checkpoints_together(self):
        """One is five times slower: the other may not remove what it is still writing."""
        out = self.out("alone")
        words = ["train", "--model", "mlp-small", "--data", self.data, "--batch", 12, "--steps", 12]
        words += ["--epochs", 2, "--no-eval", "--quiet", "--no-exchange", "--compute-ms", 4]
        words += ["--checkpoint-every", 1, "--out", out]
        script = f'[ "$RANK" = 0 ] || export SHOAL_SLOW=5; exec {os.path.abspath(shoal.SHOAL)} "$@"'
        r = shoal.run("run", "-n", 2, "--", "sh", "-c", script, "sh", *words)
        self.assertEqual(0, r.returncode, r.stderr)
        for step in (11, 12):
            names = sorted(os.listdir(os.path.join(out, f"checkpoints/step-{step}")))
            self.assertEqual(["common.safetensors", "rank-0.safetensors", "rank-1.safetensors"],
                             names)

    def test_links_that_somebody_has_put_there_are_not_followed(self):
        out, victim = self.out("planted"), self.out("victim")
        os.makedirs(os.path.join(out, "checkpoints"))
        with open(victim, "w", encoding="ascii") as file:
            file.write("mine")
        link, absent = os.path.join(out, "metrics.jsonl"), self.out("absent")
        os.symlink(absent, link)
        self.assertIn("metrics.jsonl: it is a symbolic link", self.train(out, workers=1, code=1))
        self.assertFalse(os.path.exists(absent))
        os.unlink(link)
        # below checkpoints: names that are used for a moment
        os.symlink(victim, os.path.join(out, "checkpoints", "latest.tmp"))
        self.train(out)
        self.assertFalse(os.path.islink(newest(out)))
        with open(victim, encoding="ascii") as file:
            self.assertEqual("mine", file.read())

    def test_the_folder_may_be_a_link_of_this_user(self):
        real, out = self.out("scratch"), self.out("link")
        os.mkdir(real)
        os.symlink(real, out)
        self.train(out)
        self.assertTrue(os.path.exists(newest(out)))
        self.assertIn("metrics.jsonl", os.listdir(real))
        if os.geteuid() == 0:
            os.unlink(out)
            os.mkdir(self.out("other"))
            os.symlink(self.out("other"), out)
            os.lchown(out, 1234, 1234)
            self.assertIn("a symbolic link that user 1234 has made", self.train(out, code=1))


if __name__ == "__main__":
    shoal.main()
