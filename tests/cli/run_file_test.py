# SPDX-License-Identifier: Apache-2.0
"""A run folder is enough: --resume DIR alone goes on, eval, export and --start need no more,
wherever one stands and whatever became of the files that the run was started with. What contradicts
the run is refused."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import shoal

LAYERS = '["flatten", "dense:out=32", "tanh", "dense:out=10"]'
KEYS = ("model", "batch", "epochs", "codec", "lr", "seed", "workers", "checkpoint-every")


def weights(out):
    with open(os.path.join(out, "checkpoints", "latest"), encoding="ascii") as file:
        step = file.read().split()[0]
    with open(os.path.join(out, "checkpoints", step, "common.safetensors"), "rb") as file:
        file.seek(8 + int.from_bytes(file.read(8), "little"))  # behind the header
        return file.read()


class RunFile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-run-file-"))
        for name, seed in (("data", 1), ("other", 2)):
            r = shoal.run("data", "digits", "--out", cls.path(name), "--train", 240, "--test", 60,
                          "--seed", seed)
            assert r.returncode == 0, r.stderr
        cls.write("m.json", LAYERS)
        r = cls.train("whole")
        assert r.returncode == 0, r.stderr

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder, *names)

    @classmethod
    def write(cls, name, layers):
        with open(cls.path(name), "w", encoding="ascii") as file:
            file.write(f'{{"name": "m", "input": [1, 28, 28], "layers": {layers}}}')

    @classmethod
    def words(cls, out, *more):
        """All paths are relative to the folder."""
        words = ["train", "--model", "./m.json", "--data", "data", "--workers", 2, "--batch", 12]
        words += ["--epochs", 2, "--no-eval", "--quiet", "--lr", 0.05, "--out", out, *more]
        return words + shoal.usual({"--checkpoint-every": 4, "--codec": "int8:ef"}, more)

    @classmethod
    def train(cls, out, *more):
        return shoal.run(*cls.words(out, *more), cwd=cls.folder)

    def cut(self, name, *more):
        """A run that was stopped at its tenth step of twenty, within an epoch; its path."""
        r = self.train(name, "--steps", 10, *more)
        self.assertEqual(0, r.returncode, r.stderr)
        return self.path(name)

    def resume(self, out, *more, code=0, cwd="/", says=""):
        r = shoal.run("train", "--resume", out, *more, cwd=cwd)
        self.assertEqual(code, r.returncode, r.stderr)
        self.assertIn(says, r.stderr)
        return r

    def options(self, out):
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            return json.load(file)["options"]

    def test_a_killed_run_goes_on_by_its_folder_alone(self):
        out = self.path("killed")
        argv = [os.path.abspath(shoal.SHOAL), *map(str, self.words("killed", "--compute-ms", 20))]
        with subprocess.Popen(argv, cwd=self.folder, stderr=subprocess.DEVNULL,
                              start_new_session=True) as job:
            end = time.monotonic() + 60
            while not os.path.exists(os.path.join(out, "checkpoints/latest")):
                self.assertLess(time.monotonic(), end)
            os.killpg(job.pid, signal.SIGKILL)
        os.rename(self.path("m.json"), self.path("moved.json"))
        self.addCleanup(os.rename, self.path("moved.json"), self.path("m.json"))
        before = self.options(out)
        self.resume(out)
        self.assertEqual(weights(self.path("whole")), weights(out))
        self.assertEqual(before, self.options(out))
        self.assertLessEqual({"model": "./m.json", "batch": "12", "workers": "2"}.items(),
                             before.items())
        for key in KEYS:
            self.assertIn(key, before)
        self.resume(out, code=2, says="has already done 20 of 20 steps\n  To go on, ask for "
                                      "--epochs 3 or more, of 10 steps each; `shoal eval")
        self.resume(out, "--epochs", 1, code=2,
                    says="is at step 20 already, and --epochs 1 ends at 10")

    def test_a_moved_folder_goes_on(self):
        self.cut("before")
        out = self.path("after", "that")
        os.makedirs(self.path("after"))
        shutil.move(self.path("before"), out)
        self.resume("that", "--steps", 20, cwd=self.path("after"))
        self.assertEqual(weights(self.path("whole")), weights(out))
        self.assertEqual("20", self.options(out)["steps"])

    def test_what_contradicts_is_refused(self):
        out = self.cut("strict")
        before = weights(out)
        self.write("n.json", LAYERS.replace("tanh", "relu"))  # the same tensors
        for more, says in ((["--seed", 7], "--seed 1"), (["--optimizer", "adam"], "--optimizer"),
                           (["--model", "n.json"], "whose layers are others"),
                           (["--data", "other"], "was trained on other samples"),
                           (["--circulant", "k=4"], "--circulant goes with --model"),
                           (["--steps", 9], "strict is at step 10 already, and --steps 9 counts"),
                           (["--steps", 9], "To go on, ask for --steps above 10; `shoal eval"),
                           (["--epochs", 1, "--steps", 10],
                            "already done 10 of 10 steps\n  To go on, ask for --steps above 10 and "
                            "--epochs 2 or more, of 10 steps each; `")):
            with self.subTest(more=more):
                r = self.resume(out, *more, code=2, cwd=self.folder, says=says)
                self.assertNotIn("Traceback", r.stderr)
                self.assertEqual(before, weights(out))
        plan = self.resume(out, "--dry-run", "--eval-every", 1, "--steps", 20)  # not with --no-eval
        self.assertIn("./m.json, 2 workers x batch 12", plan.stdout)
        shutil.copytree(self.path("data"), self.path("copy"))  # the same samples elsewhere
        self.resume(out, "--data", "copy", "--model", "m.json", "--steps", 20, cwd=self.folder)
        self.assertEqual(weights(self.path("whole")), weights(out))
        self.assertEqual(os.path.realpath(self.path("copy")), self.options(out)["data"])

    def test_other_workers_take_each_sample_of_the_epoch_once(self):
        for workers in (1, 3):
            out = self.cut(f"by-{workers}", "--checkpoint-every", 7)  # from step 10
            self.resume(out, "--workers", workers, "--steps", 1000)
            taken = []
            for rank in range(max(workers, 2)):
                name = f"metrics.{rank}.jsonl" if rank > 0 else "metrics.jsonl"
                with open(os.path.join(out, name), encoding="utf-8") as file:
                    lines = [json.loads(line) for line in file]
                for line in lines:
                    if "samples" in line:
                        taken += range(line["first"], line["first"] + line["samples"])
            self.assertEqual(list(range(480)), sorted(taken))

    def test_what_other_workers_drop_is_said_once_and_if_it_is_there(self):
        for codec, lines in (("int8:ef", 1), ("identity", 0)):
            out = self.cut(f"dropped-{codec}", "--codec", codec)
            r = self.resume(out, "--workers", 3, "--steps", 12)
            self.assertEqual(r.stderr.count("residuals of error feedback are dropped"), lines, r)

    def test_a_run_of_simulated_workers_goes_on_with_real_ones(self):
        out = self.path("simulated")
        words = ("train", "--model", "mlp-small", "--data", "data", "--simulate", 3, "--out", out)
        r = shoal.run(*words, "--batch", 20, cwd=self.folder)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn(f"go on with --resume {out} --workers N, real ones", r.stdout)
        self.resume(out, "--epochs", 2, code=2, says="is of simulated workers")
        told = json.loads(shoal.run("runs", out, "--json").stdout)["runs"][0]["command"]
        self.assertEqual(told, f"shoal train --resume {out} --workers N --epochs N")
        self.resume(out, *told.replace("N", "2").split()[4:])
        r = shoal.run(*words[:-1], self.path("ends"), "--on-term", "checkpoint", cwd=self.folder)
        refused = "does not go with --simulate" in r.stderr
        self.assertEqual((r.returncode, refused), (2, True), r.stderr)

    def test_what_it_took_is_of_the_steps_here(self):
        out = self.cut("counted")
        r = self.resume(out, "--steps", 12)
        self.assertIn("2 of 12 steps in ", r.stdout)
        self.assertIn("a verdict needs 50 steps", r.stdout)
        told = json.loads(self.resume(out, "--steps", 15, "--json").stdout)
        self.assertEqual((told["steps"], told["steps_here"]), (15, 3))

    def test_state_that_servers_keep_goes_on_with_the_same_servers(self):
        out = self.cut("owners", "--sync", "param_server", "--codec", "identity")
        self.resume(out, "--sync", "all_reduce", "--steps", 20, code=2,
                    says="as --sync param_server --collective")
        self.resume(out, "--bucket", "1M", "--steps", 20, code=2, says="use the same")
        self.resume(out, "--workers", 1, "--steps", 20, code=2, says="use as many")
        self.resume(out, "--bucket", "4M", "--steps", 20)  # the usual one

    def test_a_damaged_or_missing_file_is_named(self):
        out = self.cut("damaged")
        path = os.path.join(out, "run.json")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace('"lr": "0.05"', '"lr": "0.15"'))
        self.resume(out, code=1, says="damaged/run.json is damaged")
        os.remove(path)
        self.resume(out, code=2, says="which data?")
        r = self.train("damaged", "--resume", "damaged")  # all options are given
        self.assertEqual(0, r.returncode, r.stderr)
        self.assertEqual(weights(self.path("whole")), weights(out))

    def test_a_checkpoint_needs_neither_model_nor_train_split(self):
        """Findings: eval failed where the model's file was gone, and standardised by whatever train
        split lay beside."""
        out = self.path("whole")
        model = self.path("m.json")
        plain = shoal.run("eval", "--from", out, "--json", cwd="/")
        self.assertEqual(0, plain.returncode, plain.stderr)
        mixed = self.path("mixed")  # the same test split, other and darker training samples
        shutil.copytree(self.path("data"), mixed)
        for name in os.listdir(mixed):
            if name.startswith("train-images"):
                with open(os.path.join(mixed, name), "r+b") as file:
                    head, pixels = file.read(16), file.read()
                    file.seek(0)
                    file.write(head + bytes(p // 5 for p in pixels))
        os.rename(model, model + ".gone")
        self.addCleanup(os.rename, model + ".gone", model)
        other = shoal.run("eval", "--from", out, "--data", mixed, "--json", cwd="/")
        self.assertEqual(plain.stdout, other.stdout, other.stderr)
        made = shoal.run("export", "--from", out, "--out", self.path("net"), cwd="/")
        self.assertEqual(0, made.returncode, made.stderr)
        started = shoal.run("train", "--model", "mlp-small", "--start", out, "--data", mixed)
        self.assertEqual(2, started.returncode)  # another model, and it knows which
        self.assertIn("models m and mlp-small have 4 and 6 tensors", started.stderr)

    def test_values_of_exported_variables_are_not_kept(self):
        with shoal.shell_for_ssh() as rsh:
            words = self.words("hosts", "--hosts", "localhost,127.0.0.1", "-x", "KEY=secret-7")
            del words[words.index("--workers"):][:2]
            r = shoal.run(*words, "--steps", 10, cwd=self.folder, env={"SHOAL_RSH": rsh})
            self.assertEqual(0, r.returncode, r.stderr)
            out = self.path("hosts")
            self.assertEqual(["KEY"], self.options(out)["export"])
            self.resume(out, code=2, says="--export KEY: there is no such variable here")
            r = shoal.run("train", "--resume", out, "-x", "KEY=2", "--steps", 20,
                          env={"SHOAL_RSH": rsh})
            self.assertEqual(0, r.returncode, r.stderr)
            self.assertEqual(weights(self.path("whole")), weights(out))

    def test_smooth_activations_go_on_where_they_stopped(self):
        self.write("g.json", '["flatten", "dense:out=16", "gelu", "dense:out=12", "silu", '
                             '"dense:out=12", "sigmoid", "dense:out=10"]')
        for out, more in (("g", ()), ("one", ("--steps", 10))):
            words = self.words(out, "--codec", "eden", *more)
            words[words.index("./m.json")] = "./g.json"
            r = shoal.run(*words, cwd=self.folder)
            self.assertEqual(0, r.returncode, r.stderr)
        self.resume(self.path("one"), "--steps", 20)
        self.assertEqual(weights(self.path("g")), weights(self.path("one")))
        r = shoal.run("export", "--from", self.path("g"), "--out", self.path("gnet"))
        self.assertNotEqual(0, r.returncode)
        self.assertIn("gelu1 ('gelu') has no form in fixed point", r.stderr)

    def test_batch_norm_goes_on_where_each_worker_stopped(self):
        """Each has statistics of its own samples until a test averages them, and the end of a run
        within an epoch is such a test."""
        self.write("n.json", '["flatten", "dense:out=16", "batchnorm", "relu", "dense:out=10"]')
        for out, more in (("n", ()), ("stopped", ("--steps", 7))):
            words = self.words(out, *more)
            words[words.index("./m.json")] = "./n.json"
            r = shoal.run(*words, cwd=self.folder)
            self.assertEqual(0, r.returncode, r.stderr)
        self.resume(self.path("stopped"), "--steps", 20)
        self.assertEqual(weights(self.path("n")), weights(self.path("stopped")))


if __name__ == "__main__":
    shoal.main()
