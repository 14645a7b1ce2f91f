#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/torch: ways train, survivors go on, what ranks said becomes a table and is kept."""

import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import math
import os
import signal
import sys
import tempfile
import unittest
from pathlib import Path

import launch

launch.needs("numpy")
torch = launch.needs("torch")

HERE = Path(__file__).resolve().parents[2] / "bench" / "peers" / "torch"
sys.path.insert(0, str(HERE))
import models  # noqa: E402
import rank  # noqa: E402
import ways  # noqa: E402


def load_run():
    loader = importlib.machinery.SourceFileLoader("peers_run", str(HERE / "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("peers_run", loader))
    loader.exec_module(module)
    return module


def small(**more):
    return argparse.Namespace(**{"seed": 1, "steps": 4, "every": 2, "kill": 1, **more})


class Light:
    """A task that takes no time: which of two numbers is larger."""

    rate = 0.1

    def model(self):
        return models.Net(torch.nn.Linear(2, 2), torch.nn.functional.cross_entropy)

    def batch(self, step, rank, ranks):
        g = torch.Generator().manual_seed(1000 * step + rank)
        x = torch.rand(8, 2, generator=g)
        return x, x.argmax(1)

    @torch.no_grad()
    def test_loss(self, model):
        return float(model(*self.batch(-1, 0, 1)))


def prepared(name):
    torch.manual_seed(1)
    return ways.WAYS[name](Light().model(), Light.rate), Light()


def trains(name):
    def main():
        way, task = prepared(name)
        rows = rank.train(way, task, small(steps=2 * ways.EVERY, every=ways.EVERY))
        assert [row["step"] for row in rows] == [ways.EVERY, 2 * ways.EVERY], rows
        assert rows[1]["loss"] < rows[0]["loss"] < 1, rows
        assert rows[1]["seconds"] > rows[0]["seconds"] > 0, rows
        way.leave()

    return main


def one_dies():
    way, task = prepared("shoal-elastic")
    mark = os.environ["SHOAL_TEST_FOLDER"] + "/mark"
    launch.say(f"next step after {rank.survive(way, task, small(mark=mark)):.3f} s")
    way.leave()


class Canned:
    """What ranks would say: the slower a way, the later its losses."""

    def __init__(self):
        self.asked = []

    def __call__(self, way, model, rate, seed, *more):
        self.asked.append((way, seed))
        if way == "powersgd":
            return {"failed": "no such luck"}
        late = 2 if way == "fp16" else 1
        return [
            {"rows": [
                {"step": 10 * i, "loss": 3.0 - i / late, "seconds": 2.0 * i * late, "cpu_s": 1.0,
                 "bytes": 1_000_000 * i}
                for i in (1, 2)
            ]}
        ]  # fmt: skip


class PeersBenchTest(launch.RanksTest):
    def test_ways_train(self):
        for name in ("gloo", "shoal-eden", "shoal-diloco"):
            with self.subTest(way=name):
                self.assert_ranks(trains(name), 2)

    def test_survivors_go_on(self):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["SHOAL_TEST_FOLDER"] = folder
            statuses, printed = launch.run(one_dies, 3)
        self.assertEqual([0, -signal.SIGKILL, 0], statuses, printed)
        self.assertEqual(2, printed.count("next step after"), printed)

    def test_what_is_trained(self):
        text = models.Text(small())
        x, y = text.batch(3, 1, 4)
        self.assertTrue(torch.equal(x[:, 1:], y[:, :-1]))
        self.assertTrue(torch.equal(x, text.batch(3, 1, 4)[0]))
        self.assertFalse(torch.equal(x, text.batch(3, 2, 4)[0]))
        torch.manual_seed(1)
        self.assertLess(abs(float(text.model()(x, y)) - math.log(256)), 1)

    def test_medians_and_what_is_kept(self):
        run = load_run()
        run.version = lambda package: "1.0"
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.json"
            options = argparse.Namespace(out=out, seeds=2, steps=20, build=None)
            for times in range(2):
                bench, canned = run.Bench(options), Canned()
                bench.folder.cleanup()
                bench.ranks = canned
                said = io.StringIO()
                with contextlib.redirect_stdout(said):
                    run.contest(bench, "conv", "none", ["gloo", "fp16", "powersgd"])
                self.assertEqual([6, 0][times], len(canned.asked))
            rows = {line.split()[0]: line.split() for line in said.getvalue().splitlines() if line}
            self.assertEqual(["gloo", "2/2", "20", "4.00", "2.0", "1.00", "1.00"], rows["gloo"])
            self.assertEqual("0/2", rows["fp16"][1])
            self.assertIn("does not come to that loss", said.getvalue())
            self.assertIn("failed: no such luck", said.getvalue())
            kept = json.loads(out.read_text())
            self.assertEqual(6, len(kept["cells"]))
            self.assertTrue(all(cell["load"] >= 0 for cell in kept["cells"].values()))
            self.assertTrue(kept["commit"])


if __name__ == "__main__":
    unittest.main()
