# SPDX-License-Identifier: Apache-2.0
"""Whatever is in a path: what --json answers parses, and names it as it is."""
import json
import os
import tempfile
import unittest

import explore_test
import shoal
import train_test

STRANGE = 'a"q"\\ünd'
CLUSTER = os.path.join(shoal.ROOT, "examples", "clusters", "lab-4.json")


class Json(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="sj-")
        cls.folder = os.path.join(cls.temporary.name, STRANGE)
        os.mkdir(cls.folder)
        train_test.write_data(cls.folder)
        cls.model = cls.at("net.json")
        cls.write(cls.model, ["flatten", "dense:out=8", "tanh", f"dense:out={train_test.CLASSES}"])

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder, name)

    @staticmethod
    def write(path, layers):
        model = {"name": "tiny", "input": [1, train_test.SIDE, train_test.SIDE], "layers": layers}
        with open(path, "w", encoding="utf-8") as f:
            json.dump(model, f)

    def ask(self, *args, code=0, **kwargs):
        r = shoal.run(*args, "--json", **kwargs)
        self.assertEqual(r.returncode, code, r.stderr)
        self.assertEqual(r.stdout.count("\n"), 1, r.stdout)
        return json.loads(r.stdout)

    def test_a_model_through_its_life(self):
        self.assertEqual(len(self.ask("model", "show", self.model)["layers"]), 4)
        run = self.at("run")
        train = ["train", "--model", self.model, "--data", self.folder, "--epochs", 1]
        trained = self.ask(*train, "--out", run, "--no-eval")
        self.assertEqual(trained["model"], self.model)
        both = self.ask(*train, "--workers", 2, "--codec", "auto", "--steps", 20)
        self.assertEqual(len(both["ranks"]), 2)
        self.assertEqual(both["model"], self.model)
        rows = self.ask("eval", "--from", run, "--data", self.folder, "--fixed", 12)
        self.assertEqual(sorted(rows), ["fixed12", "float32"])

    def test_planners(self):
        self.assertGreater(
            self.ask("predict", "--model", self.model, "--cluster", CLUSTER)["iteration_s"], 0
        )
        found = self.ask("predict", "--model", self.model, "--cluster", CLUSTER, "--search")
        self.assertEqual(found["candidates"][0]["why"], "best")
        plan = self.at("plan.json")
        parts = self.ask("partition", "--model", self.model, "--levels", 1, "--out", plan)
        self.assertEqual(len(parts["layers"]), 2)
        self.ask("predict", "--plan", plan, "--cluster", CLUSTER)
        speeds = ["--accelerators", "1x2", "--rate", "1gbit", "--batch", 8]
        self.assertEqual(self.ask("partition", "--model", self.model, *speeds)["mode"], "accpar")
        simulated = self.ask("sim", "--workers", 2, "--model", self.model, "--iterations", 3)
        self.assertEqual(len(simulated["per_worker"]), 2)

    def test_what_was_measured_can_be_read(self):
        out = self.at("cluster.json")
        found = self.ask("calibrate", "--ranks", 1, "--models", self.model, "--batches", 2,
                         "--out", out)  # fmt: skip
        self.assertEqual(found["out"], out)
        with open(out, encoding="utf-8") as f:
            names = [profile["model"] for profile in json.load(f)["profiles"]]
        self.assertEqual(names, [self.model])
        self.ask("predict", "--model", self.model, "--cluster", out)

    def test_sequences_up_to_their_export(self):
        data = self.at("sequences")
        os.mkdir(data)
        for kind, count in (("train", 48), ("test", 24)):
            explore_test.write_split(os.path.join(data, f"{kind}.shoalseq"), count, 1)
        about = {"input": [1, explore_test.FRAMES, explore_test.VALUES]}
        for cell in ("lstm", "gru"):
            layers = [f"{cell}:out=32", f"framewise:out={explore_test.CLASSES}"]
            with open(self.at(cell + ".json"), "w", encoding="utf-8") as f:
                json.dump({"name": cell, "layers": layers, **about}, f)
        search = self.at("search")
        found = self.ask("explore", "--lstm", self.at("lstm.json"), "--gru", self.at("gru.json"),
                         "--data", data, "--batch", 8, "--epochs", 1, "--limit", 100,
                         "--memory", 60000, "--out", search)  # fmt: skip
        self.assertTrue(found["trials"][0]["model"].startswith(self.at("lstm.json")))
        out = self.at("net")
        made = self.ask("export", "--from", os.path.join(search, "trial-1"), "--data",
                        data, "--out", out)  # fmt: skip
        self.assertEqual(made["out"], out)

    def test_data_and_others(self):
        for kind in ("digits", "colours"):
            out = self.at(kind)
            made = self.ask("data", kind, "--out", out, "--train", 10, "--test", 10)
            self.assertEqual(made["dir"], out)
        self.ask("data", "clicks", "--out", self.at("clicks"), "--train", 100, "--test", 100)
        libsvm = self.at("some.libsvm")
        with open(libsvm, "w", encoding="ascii") as f:
            f.write("+1 1:1 3:0.5\n-1 2:1\n" * 10)
        made = self.ask("data", "svmlight", "--from", libsvm, "--out", self.at("libsvm"))
        self.assertEqual((made["train"], made["test"], made["vocab"]), (18, 2, 3))
        text = self.at("some.txt")
        with open(text, "w", encoding="ascii") as f:
            f.write("to be or not to be, that is the question\n" * 200)
        self.ask("data", "text", text, "--out", self.at("text"), "--length", 16)
        doctor = shoal.run("doctor", "-n", 1, "--json")  # it may find something
        self.assertEqual(len(json.loads(doctor.stdout)["hosts"]), 1)
        rows = json.loads(shoal.run("list", "codecs", "--json").stdout)["codecs"]
        self.assertGreater(len(rows), 10)
        self.assertGreater(len(self.ask("model", "--list")["models"]), 5)
        rows = self.ask("bench", "codec", "--codec", "fp16", "--data", "gauss", "--place", "cache",
                        "--rounds", 1)["rows"]  # fmt: skip
        self.assertEqual(rows[0]["codec"], "fp16")

    def test_bytes_that_are_no_text(self):
        """JSON has no place for them: they become question marks."""
        out = os.fsdecode(os.fsencode(self.at("digits-")) + b"\xff\xfe")
        made = self.ask("data", "digits", "--out", out, "--train", 10, "--test", 10)
        self.assertTrue(made["dir"].endswith("digits-??"))


if __name__ == "__main__":
    shoal.main()
