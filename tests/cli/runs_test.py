# SPDX-License-Identifier: Apache-2.0
"""shoal runs: what run folders hold, whether they are whole, and the command that goes on."""
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest

import shoal
from screen_model import Terminal


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 4]))


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-runs-"))
        cls.data = os.path.join(cls.folder, "data")
        r = shoal.run("data", "digits", "--out", cls.data, "--train", 240, "--test", 20)
        assert r.returncode == 0, r.stderr
        cls.done = cls.path("runs", "done")
        for out, more in ((cls.done, ()), (cls.path("runs", "deep", "short"), ("--steps", 6))):
            r = shoal.run(*cls.words(out, *more))
            assert r.returncode == 0, r.stderr

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder, *names)

    @classmethod
    def words(cls, out, *more):
        words = ["train", "--model", "mlp-small", "--data", cls.data, "--workers", 2, "--quiet"]
        words += ["--batch", 12, "--epochs", 2, "--checkpoint-every", 4, "--codec", "int8:ef"]
        return [*words, "--out", out, *more]

    def runs(self, *words, code=0):
        r = shoal.run("runs", "--json", *words)
        self.assertEqual(code, r.returncode, r.stderr)
        return json.loads(r.stdout)["runs"]

    def one(self, out, *words, code=0):
        found = self.runs(out, *words, code=code)
        self.assertEqual([out], [run["folder"] for run in found])
        return found[0]

    def copy(self, name):
        """A finished run as it was before its last checkpoint, with the metrics of after."""
        out = self.path(name)
        shutil.copytree(self.done, out)
        shutil.rmtree(os.path.join(out, "checkpoints", "step-20"))
        with open(os.path.join(out, "checkpoints", "latest"), "w", encoding="ascii") as file:
            file.write("step-16\n")
        return out

    def go_on(self, command, code=0):
        words = shlex.split(command)
        self.assertEqual("shoal", words[0])
        r = shoal.run(*words[1:], "--quiet")
        self.assertEqual(code, r.returncode, r.stderr)

    def test_a_finished_run(self):
        run = self.one(self.done)
        self.assertLessEqual({"state": "finished", "text": "", "model": "mlp-small", "workers": 2,
                              "data": self.data, "sync": "all_reduce", "collective": "ring",
                              "codec": "int8:ef", "step": 20, "steps": 20, "epoch": 2,
                              "epochs": 2, "resumes_from": 20}.items(), run.items())
        self.assertEqual([("step-20", "whole", True), ("step-16", "whole", False)],
                         [(c["name"], c["state"], c["latest"]) for c in run["checkpoints"]])
        with open(os.path.join(self.done, "metrics.jsonl"), encoding="utf-8") as file:
            last = [line for line in map(json.loads, file) if "epoch" in line][-1]
        self.assertAlmostEqual(last["train_loss"], run["loss"], places=12)
        self.assertEqual(last["test_accuracy"], run["test_accuracy"])
        self.assertEqual(f"shoal train --resume {self.done} --epochs N", run["command"])
        out = self.path("more")
        shutil.copytree(self.done, out)
        self.go_on(self.one(out)["command"].replace("N", "3"))
        again = self.one(out)
        self.assertEqual(("finished", 30, run["began"]),
                         (again["state"], again["step"], again["began"]))

    def test_a_stopped_run_names_the_command_that_goes_on(self):
        out = self.copy("it's stopped")
        run = self.one(out)
        self.assertEqual(("stopped", 16, 20, 20), (run["state"], run["resumes_from"], run["step"],
                                                   run["steps"]))
        self.go_on(run["command"])
        self.assertEqual("finished", self.one(out)["state"])

    def test_a_finished_run_that_went_on_and_stopped_is_stopped(self):
        out = self.path("went-on")
        shutil.copytree(self.path("runs", "deep", "short"), out)
        self.assertEqual("finished", self.one(out)["state"])
        argv = [shoal.SHOAL, "train", "--resume", out, "--steps", "20", "--compute-ms", "50",
                "--checkpoint-every", "100"]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True) as job:
            shoal.wait_until(lambda: self.one(out)["step"] > 6)
            run = self.one(out)
            self.assertEqual(("running", None), (run["state"], run["command"]))
            self.assertRegex(run["text"], r"^process \d+ on host .*, members' epoch 0$")
            os.killpg(job.pid, signal.SIGKILL)
        shoal.wait_until(lambda: self.one(out)["state"] != "running")
        run = self.one(out)
        self.assertEqual(("stopped", 6, 20), (run["state"], run["resumes_from"], run["steps"]))
        self.go_on(run["command"])
        self.assertEqual("finished", self.one(out)["state"])

    def test_damage_is_named_and_quick_believes(self):
        for file, at in (("common.safetensors", 5000), ("rank-1.safetensors", 5000)):
            with self.subTest(file=file):
                out = self.path("damaged-" + file)
                shutil.copytree(self.done, out)
                path = os.path.join(out, "checkpoints", "step-20", file)
                flip(path, at)
                run = self.one(out, code=1)
                self.assertEqual(("damaged", 16), (run["state"], run["resumes_from"]))
                self.assertIn(path, run["text"])
                self.assertIn("not those that were written", run["text"])
                self.assertEqual(["damaged", "whole"], [c["state"] for c in run["checkpoints"]])
                self.assertEqual("finished", self.one(out, "--quick")["state"])
                os.unlink(path)
                self.assertIn(path, self.one(out, "--quick", code=1)["text"])
        out = self.path("lost")
        shutil.copytree(self.done, out)
        for step in (16, 20):
            shutil.rmtree(os.path.join(out, "checkpoints", f"step-{step}"))
        run = self.one(out, code=1)
        self.assertEqual(("damaged", None), (run["state"], run["command"]))
        self.assertIn("no checkpoint is whole", run["text"])

    def test_run_json_is_damaged_or_gone(self):
        out = self.copy("description")
        flip(os.path.join(out, "run.json"), 60)
        run = self.one(out, code=1)
        self.assertEqual(("damaged", None, ""), (run["state"], run["command"], run["model"]))
        self.assertIn("run.json", run["text"])
        os.unlink(os.path.join(out, "run.json"))
        run = self.one(out)  # as older versions left it
        self.assertEqual(("stopped", 16), (run["state"], run["resumes_from"]))
        self.assertIn("--model M --data D", run["command"])
        whole = self.path("undescribed")
        shutil.copytree(self.done, whole)
        os.unlink(os.path.join(whole, "run.json"))
        self.assertEqual("finished", self.one(whole)["state"])

    def test_unfinished_checkpoints_are_no_damage(self):
        out = self.copy("unfinished")
        path = os.path.join(out, "checkpoints", "step-20")
        os.mkdir(path)
        run = self.one(out)
        self.assertEqual(("stopped", "unfinished", ""), (
            run["state"], run["checkpoints"][0]["state"], run["checkpoints"][0]["text"]))
        shutil.rmtree(os.path.join(out, "checkpoints"))
        run = self.one(out)  # it begins once more
        self.assertEqual(("stopped", 0), (run["state"], run["resumes_from"]))
        self.go_on(run["command"])

    def test_people_get_a_table(self):
        """Fitted to a terminal of 60 or 80 columns; with the whole of each path off it."""
        long = self.path("a" * 60, "b" * 60)
        shutil.copytree(self.done, long)
        flip(os.path.join(long, "checkpoints", "step-20", "common.safetensors"), 5000)
        table = shoal.run("runs", self.path("runs"), long).stdout.splitlines()
        self.assertRegex(table[0], "^run  *state  *steps  *epochs  *loss  *acc %$")
        self.assertRegex(table[1], r"/short +finished +6/6 +1/2 .* -?[\d.]+$")
        self.assertRegex(table[3], rf"^{long} damaged +20/20 +2/2")
        self.assertRegex(table[4], "^  [^ ].* bytes ")
        for columns in (60, 80):
            t = Terminal(columns, 100, "runs", self.path("runs"), long)
            self.addCleanup(t.close)
            self.assertEqual(t.end(), 1, t.said)
            lines = t.said.replace("\r\n", "\n").splitlines()
            self.assertRegex(lines[3], r"^/[^ ]*\.\.\.[^ ]*b damaged +20/20 +2/2")
            for line in lines:
                self.assertTrue(len(line) <= columns or long in line, line)
        for out in (self.done, long):
            for line in shoal.run("runs", out).stdout.splitlines():
                self.assertTrue(len(line.replace(out, "")) <= 80, line)
        one = shoal.run("runs", self.done).stdout
        self.assertIn(f"{self.done}: finished\n  model        mlp-small\n", one)
        self.assertIn("all_reduce, ring, int8:ef; 2 workers\n", one)
        self.assertIn("  checkpoints  step-20, whole, latest\n               step-16, whole\n", one)

    def test_what_is_no_run(self):
        empty, file, loop = self.path("empty"), self.path("file"), self.path("loop")
        os.mkdir(empty)
        with open(file, "w", encoding="ascii"):
            pass
        os.symlink("loop", loop)
        os.symlink("..", os.path.join(empty, "up"))
        os.mkfifo(os.path.join(empty, "run.json.fifo"))
        self.assertEqual([], self.runs(empty))
        self.assertIn(f"no run in {empty}", shoal.run("runs", empty).stdout)
        for words, code, says in (((file,), 2, "is no folder"), (("",), 2, "empty"),
                                  ((loop,), 1, "Too many levels"), ((), 2, "which folder?"),
                                  ((self.path("absent"),), 1, "No such file"),
                                  (("x" * 300,), 1, "name too long"),
                                  (("x" * 10 ** 5,), 2, "xxx"),
                                  (("--quik", empty), 2, "did you mean --quick?")):
            with self.subTest(words=str(words)[:40]):
                r = shoal.run("runs", *words)
                self.assertEqual((code, ""), (r.returncode, r.stdout), r.stderr)
                self.assertIn(says.lower(), r.stderr.lower())
        pipe = self.path("piped")
        os.mkdir(pipe)
        for name in ("run.json", "lock", "metrics.jsonl"):
            os.mkfifo(os.path.join(pipe, name))  # waits for nobody
        self.assertEqual("damaged", self.one(pipe, code=1)["state"])
        found = self.runs(self.done, file, code=2)  # the others are told of
        self.assertEqual([self.done], [run["folder"] for run in found])

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_an_unreadable_folder(self):
        out = self.path("closed")
        os.mkdir(out, 0)
        r = shoal.run("runs", out)
        self.assertEqual(1, r.returncode)
        self.assertIn("Permission denied", r.stderr)

    def test_control_characters_do_not_reach_the_terminal(self):
        out = self.path("a\x1b[31mb")
        shutil.copytree(self.done, out)
        self.assertNotIn("\x1b", shoal.run("runs", out).stdout)
        self.assertEqual(out, self.one(out)["folder"])


if __name__ == "__main__":
    shoal.main()
