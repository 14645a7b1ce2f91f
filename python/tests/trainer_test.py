#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library's trainer, its simulator, evaluation and export from Python give what the commands
give."""

import json
import math
import os
import shutil
import subprocess
import tempfile
import unittest

import launch

import shoal

WORDS = ("--model", "mlp-small", "--batch", "20", "--epochs", "2", "--lr", "0.05")
OPTIONS = {"model": "mlp-small", "batch": 20, "epochs": 2, "lr": 0.05}


def command(*arguments):
    done = subprocess.run(
        [os.environ["SHOAL"], *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


class TrainerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="shoal-trainer-")
        cls.addClassCleanup(shutil.rmtree, cls.top)
        cls.data = os.path.join(cls.top, "digits")
        command("data", "digits", "--out", cls.data, "--train", 400, "--test", 100)
        cls.run_folder = os.path.join(cls.top, "run")
        cls.said = json.loads(command("train", *WORDS, "--data", cls.data, "--json",
                                      "--out", cls.run_folder))  # fmt: skip

    def path(self, name):
        return os.path.join(self.top, name)

    def test_alone_as_the_command(self):
        seen = []
        done = shoal.train(data=self.data, out=self.path("own"), on_step=seen.append, **OPTIONS)
        self.assertEqual((done.workers, done.steps), (1, 40))
        self.assertEqual(done.params, self.said["params"])
        self.assertEqual(done.test_accuracy, self.said["test_accuracy"])
        self.assertAlmostEqual(done.train_loss, self.said["train_loss"], 6)
        self.assertEqual([p.step for p in seen], list(range(1, 41)))
        self.assertEqual([p.step for p in seen if p.epoch_ended], [20, 40])
        self.assertGreater(seen[19].test_accuracy, 0)
        self.assertTrue(math.isnan(seen[18].test_accuracy))
        with self.assertRaises(shoal.Error):  # a finished run is no place for another
            shoal.train(data=self.data, out=self.path("own"), **OPTIONS)

    def test_ranks_together(self):
        def rank(data):
            done = shoal.train(data=data, **OPTIONS, sync="local_sgd:every=5", evaluate=False)
            return done.workers, done.steps, done.train_loss

        first, second = shoal.launch(rank, 2, self.data)
        self.assertEqual(first[:2], (2, 20))
        self.assertEqual(first, second)

    def test_it_may_end_and_go_on(self):
        out = self.path("halves")
        ended = shoal.train(data=self.data, out=out, checkpoint_every=10,
                            on_step=lambda p: p.step == 25, **OPTIONS)  # fmt: skip
        self.assertIsNone(ended)
        done = shoal.train(resume=out, **OPTIONS)
        self.assertEqual(done.test_accuracy, self.said["test_accuracy"])

    def test_train_refuses(self):
        for options, kind, words in (
            ({"reform": True}, ValueError, "no reform"),
            ({"sync": "ripples", "codec": "eden"}, shoal.InvalidArgument, "--codec eden"),
            ({"bach": 20}, TypeError, "no field bach"),
            ({"optimizer": "sdg"}, shoal.InvalidArgument, "sdg"),
        ):
            with self.assertRaisesRegex(kind, words):
                shoal.train("mlp-small", self.data, **options)
        with self.assertRaises(shoal.Error):
            shoal.train("mlp-small", self.path("nowhere"))
        with shoal.Comm(rank=0, world_size=1, on_loss="reform") as comm:
            with self.assertRaisesRegex(ValueError, "on_loss='reform'"):
                shoal.train("mlp-small", self.data, comm=comm)

    def test_virtual_time(self):
        world = {"sync": "hop", "iterations": 20, "compute": "fixed:ms=50,slow=2:4x"}
        found = shoal.sim(workers=4, network="links:rate=100mbit", **world)
        said = json.loads(command("sim", "--workers", 4, "--sync", "hop", "--iterations", 20,
                                  "--compute", world["compute"], "--network", "links:rate=100mbit",
                                  "--no-mixing", "--json"))  # fmt: skip
        self.assertAlmostEqual(found.duration_s, said["duration_s"], 6)
        self.assertEqual(found.sent_bytes, said["sent_bytes"])
        self.assertEqual([e.end for e in found.endpoints], ["done"] * 4)
        self.assertLess(found.utilisation, 0.6)  # all wait for worker 2
        self.assertEqual(len({e.iterations for e in found.endpoints}), 1)
        dead = shoal.sim(workers=4, faults="plan:die=1@0.4", **world)
        self.assertEqual(dead.endpoints[1].end, "dead")
        with self.assertRaises(ValueError):
            shoal.sim(workers=4, sync="hopp")
        with self.assertRaisesRegex(TypeError, "batch without data"):
            shoal.sim(workers=4, batch=3)

    def test_networks_in_virtual_time(self):
        found = shoal.sim(workers=2, data=self.data, batch=20, epochs=2, lr=0.05,
                          model="mlp-small", sync="local_sgd:every=5")  # fmt: skip
        self.assertGreater(found.test_accuracy, 20)
        self.assertLess(found.curve[-1].loss, found.curve[1].loss)

    def test_evaluation(self):
        said = json.loads(command("eval", "--from", self.run_folder, "--fixed", 12, "--json"))
        for name, bits in (("float32", 0), ("fixed12", 12)):
            own = shoal.evaluate(self.run_folder, bits=bits)
            self.assertEqual(own.samples, 100)
            self.assertAlmostEqual(own.loss, said[name]["loss"], 5)
            self.assertAlmostEqual(own.accuracy, said[name]["accuracy"], 5)
        self.assertEqual(shoal.evaluate(self.run_folder, samples=30).samples, 30)
        with self.assertRaises(shoal.InvalidArgument):
            shoal.evaluate(self.run_folder, bits=13)
        with self.assertRaises(shoal.Error):
            shoal.evaluate(self.path("nowhere"))

    def test_files_for_others(self):
        own, theirs = self.path("own-net"), self.path("their-net")
        matrices = shoal.export(self.run_folder, own, "digits", bits=16)
        command("export", "--from", self.run_folder, "--out", theirs, "--name", "digits",
                "--fixed", 16)  # fmt: skip
        for name in ("digits.h", "digits_weights.h", "digits.safetensors"):
            with open(f"{own}/{name}", "rb") as a, open(f"{theirs}/{name}", "rb") as b:
                self.assertEqual(a.read(), b.read())
        self.assertEqual(sum(m.weights * m.places for m in matrices),
                         sum(m.rows * m.cols for m in matrices))  # fmt: skip
        weights = self.path("w.safetensors")
        self.assertEqual(shoal.export(self.run_folder, safetensors=weights), [])
        net = self.path("digits.onnx")
        self.assertEqual(shoal.export(self.run_folder, onnx=net), [])
        command("export", "--from", self.run_folder, "--onnx", net + "2")
        with open(net, "rb") as own_file, open(net + "2", "rb") as other:
            self.assertEqual(own_file.read(), other.read())
        self.assertGreater(os.path.getsize(weights), 4 * sum(m.weights for m in matrices))
        with self.assertRaisesRegex(ValueError, "where to"):
            shoal.export(self.run_folder)
        with self.assertRaises(shoal.InvalidArgument):
            shoal.export(self.run_folder, own, "9a")


if __name__ == "__main__":
    unittest.main()
