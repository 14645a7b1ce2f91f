# SPDX-License-Identifier: Apache-2.0
"""Optimisers, schedules, clipping, smoothed labels and averages of weights beside PyTorch in
double: 50 steps of the command, each on the whole data set, from the same weights; Muon beside
NumPy."""
import json
import os
import shutil
import sys
import tempfile
import unittest

import shoal
import tensor_file
import train_test

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skipped: no {missing.name} for Python", file=sys.stderr)
    sys.exit(shoal.SKIP)

STEPS, SAMPLES, TESTS, SIDE, CLASSES = 50, 48, 20, train_test.SIDE, train_test.CLASSES
LAYERS = ["flatten", "dense:out=16", "tanh", "dense:out=12", "tanh", f"dense:out={CLASSES}"]


def read_idx(folder, stem):
    with open(os.path.join(folder, f"{stem}-images-idx3-ubyte"), "rb") as f:
        images = np.frombuffer(f.read()[16:], np.uint8).reshape(-1, SIDE * SIDE)
    with open(os.path.join(folder, f"{stem}-labels-idx1-ubyte"), "rb") as f:
        labels = np.frombuffer(f.read()[8:], np.uint8).astype(np.int64)
    return images.astype(np.float64), torch.from_numpy(labels)


def read_checkpoint(out):
    """Arrays and metadata of the newest checkpoint."""
    with open(os.path.join(out, "checkpoints", "latest"), encoding="ascii") as f:
        path = os.path.join(out, "checkpoints", f.read().strip(), "common.safetensors")
    arrays = {name: array.astype(np.float64) for name, array in tensor_file.read(path).items()}
    return arrays, tensor_file.parts(path)[1]


def muon_step(weight, momentum, lr):
    """Jordan's muon.py, the update of one matrix, in NumPy's double."""
    momentum += 0.05 * (weight.grad.numpy() - momentum)
    x = weight.grad.numpy() + 0.95 * (momentum - weight.grad.numpy())
    rows, cols = x.shape
    x = x.T if rows > cols else x
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    x = x.T if rows > cols else x
    with torch.no_grad():
        weight -= lr * max(1, rows / cols) ** 0.5 * torch.from_numpy(x.copy())


class Net(torch.nn.Module):
    def __init__(self, arrays):
        super().__init__()
        for name, values in arrays.items():
            if not name.startswith("optimizer."):
                key = name.replace(".", "_")
                self.register_parameter(key, torch.nn.Parameter(torch.tensor(values)))

    def layers(self):
        return [(getattr(self, f"dense{i}_weight"), getattr(self, f"dense{i}_bias"))
                for i in (1, 2, 3)]

    def forward(self, x):
        for i, (weight, bias) in enumerate(self.layers()):
            x = torch.nn.functional.linear(torch.tanh(x) if i else x, weight, bias)
        return x


class Optimizers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="shoal-optimizers-")
        train_test.write_data(cls.folder, SAMPLES, TESTS)
        cls.model = os.path.join(cls.folder, "net.json")
        with open(cls.model, "w", encoding="ascii") as f:
            json.dump({"name": "net", "input": [1, SIDE, SIDE], "layers": LAYERS}, f)
        cls.runs = 0
        torch.set_num_threads(1)
        first = cls.train("--optimizer", "sgd:momentum=0", "--lr", 1e-12, "--steps", 1)
        cls.first, about = read_checkpoint(first)
        mean, deviation = float(about["mean"]), float(about["deviation"])
        cls.data, cls.tests = (
            (torch.from_numpy((images / 255 - mean) / deviation), labels)
            for images, labels in (read_idx(cls.folder, stem) for stem in ("train", "t10k")))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def train(cls, *args, out=None, batch=SAMPLES, code=0):
        cls.runs += 1
        out = out or os.path.join(cls.folder, f"run-{cls.runs}")
        given = ("--model", cls.model, "--data", cls.folder, "--batch", batch, "--epochs", STEPS,
                 "--out", out)
        given = () if "--resume" in args else given
        r = shoal.run("train", *given, *args, "--quiet")
        if r.returncode != code:
            raise AssertionError(r.stderr)
        return out if code == 0 else r.stderr

    @staticmethod
    def lines(out, kind):
        with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as f:
            return [line for line in map(json.loads, f) if kind in line]

    def compare(self, out, net, losses, bound=2e-4):
        got, _ = read_checkpoint(out)
        steps = self.lines(out, "update_us")
        self.assertEqual(len(steps), STEPS)
        for line, loss in zip(steps, losses):
            self.assertLess(abs(line["loss"] - loss), bound)
        moved = 0
        for name, weight in net.named_parameters():
            for key in self.first:
                if key.replace(".", "_") == name:
                    difference = np.abs(got[key] - weight.detach().numpy()).max()
                    self.assertLess(difference, bound, f"{out}: {key}")
                    moved = max(moved, np.abs(got[key] - self.first[key]).max())
        self.assertGreater(moved, 20 * bound)

    def beside(self, make, *args, smoothing=0.0, clip=None, schedule=None, after=None):
        """The same run in PyTorch; make: net -> functions that step, of the rate's share."""
        out = self.train(*args)
        net = Net(self.first)
        criterion = torch.nn.CrossEntropyLoss(label_smoothing=smoothing)
        optimizer, losses = make(net), []
        decay = schedule(optimizer) if schedule else None
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = criterion(net(self.data[0]), self.data[1])
            loss.backward()
            losses.append(loss.item())
            if clip:
                torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
            optimizer.step()
            if decay:
                decay.step()
            if after:
                after(net)
        self.compare(out, net, losses)
        return out

    @staticmethod
    def groups(net, decay):
        return [{"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": decay},
                {"params": [p for p in net.parameters() if p.dim() == 1], "weight_decay": 0}]

    def test_adamw_spares_biases(self):
        self.beside(lambda net: torch.optim.AdamW(self.groups(net, 0.1), lr=0.01),
                    "--optimizer", "adamw:decay=0.1", "--lr", 0.01)

    def test_adamw_of_all_parameters_has_pytorchs_defaults(self):
        self.beside(lambda net: torch.optim.AdamW(net.parameters(), lr=0.02),
                    "--optimizer", "adamw:decay_all", "--lr", 0.02)

    def test_adam_and_sgd_as_before(self):
        self.beside(lambda net: torch.optim.Adam(self.groups(net, 0.01), lr=0.01),
                    "--optimizer", "adam:decay=0.01", "--lr", 0.01)
        self.beside(
            lambda net: torch.optim.SGD(self.groups(net, 1e-3), 0.1, momentum=0.9, nesterov=True),
            "--optimizer", "sgd:nesterov,decay=1e-3", "--lr", 0.1)

    def test_clipping_by_global_norm(self):
        self.beside(lambda net: torch.optim.SGD(net.parameters(), 0.2, momentum=0.9),
                    "--lr", 0.2, "--clip-norm", 0.25, clip=0.25)

    def test_polynomial_decay(self):
        if not hasattr(torch.optim.lr_scheduler, "PolynomialLR"):
            self.skipTest("this PyTorch has no PolynomialLR")
        self.beside(lambda net: torch.optim.SGD(net.parameters(), 0.1, momentum=0.9),
                    "--lr", 0.1, "--schedule", "poly:power=1.5",
                    schedule=lambda o: torch.optim.lr_scheduler.PolynomialLR(o, STEPS, 1.5))

    def test_smoothed_labels(self):
        self.beside(lambda net: torch.optim.SGD(net.parameters(), 0.1, momentum=0.9),
                    "--lr", 0.1, "--label-smoothing", 0.2, smoothing=0.2)

    def test_the_average_is_what_is_tested_evaluated_and_exported(self):
        average = torch.optim.swa_utils.AveragedModel(
            Net(self.first), avg_fn=lambda mean, new, _: 0.9 * mean + 0.1 * new)
        average.n_averaged += 1  # it has begun, with the first weights
        out = self.beside(lambda net: torch.optim.SGD(net.parameters(), 0.1, momentum=0.9),
                          "--optimizer", "sgd:ema=0.9", "--lr", 0.1,
                          after=average.update_parameters)
        got, _ = read_checkpoint(out)
        want = np.concatenate([p.detach().numpy().ravel() for p in average.module.parameters()])
        flat = [got[name] for name in self.first]
        self.assertLess(np.abs(got["optimizer.average"] - want).max(), 2e-4)
        self.assertGreater(np.abs(np.concatenate([a.ravel() for a in flat]) - want).max(), 0.01)
        with torch.no_grad():
            loss = torch.nn.functional.cross_entropy(average.module(self.tests[0]), self.tests[1])
        self.assertLess(abs(self.lines(out, "epoch")[-1]["test_loss"] - loss.item()), 2e-4)
        said = json.loads(shoal.run("eval", "--from", out, "--json").stdout)
        self.assertLess(abs(said["float32"]["loss"] - loss.item()), 2e-4)

    def test_muon(self):
        outer = self

        class Muon:
            def __init__(self, net):
                (first, _), (self.hidden, _), _ = net.layers()
                rest = [p for p in net.parameters() if p is not self.hidden]
                self.momentum = np.zeros(self.hidden.shape)
                self.rest = torch.optim.AdamW(rest, 0.03 * 0.1, betas=(0.9, 0.95), eps=1e-10,
                                              weight_decay=0)
                outer.assertIsNot(first, self.hidden)

            def zero_grad(self):
                self.rest.zero_grad()
                self.hidden.grad = None

            def step(self):
                muon_step(self.hidden, self.momentum, 0.03)
                self.rest.step()

        self.beside(Muon, "--optimizer", "muon:rest=0.1", "--lr", 0.03)

    def test_resuming_goes_on_bit_for_bit(self):
        how = ("--optimizer", "muon:ema=0.9,decay=0.01", "--clip-norm", 0.5,
               "--label-smoothing", 0.1, "--checkpoint-every", 5)
        whole = self.train(*how, batch=16)
        part = self.train(*how, "--steps", 60, batch=16)
        self.train("--resume", part, "--steps", 150)
        want, _ = read_checkpoint(whole)
        got, _ = read_checkpoint(part)
        self.assertIn("optimizer.average", got)
        self.assertEqual(sorted(got), sorted(want))
        for name, values in want.items():
            self.assertTrue(np.array_equal(values, got[name]), name)

    def test_workers_clip_the_norm_of_the_mean(self):
        """Two processes, and two workers in one: the same sums, so the same norm, the same bits."""
        for optimizer in ("sgd", "muon"):
            how = ("--optimizer", optimizer, "--clip-norm", 0.2, "--steps", 30)
            two, _ = read_checkpoint(self.train(*how, "--workers", 2, batch=12))
            one, _ = read_checkpoint(self.train(*how, "--simulate", 2, batch=12))
            free, _ = read_checkpoint(self.train(*how[:2], *how[4:], "--workers", 2, batch=12))
            differences = 0
            for name in self.first:
                self.assertTrue(np.array_equal(two[name], one[name]), name)
                differences += not np.array_equal(two[name], free[name])
            self.assertGreater(differences, 0)

    def test_what_does_not_go_together_is_refused_by_name(self):
        for words, said in (
                (("--clip-norm", 1, "--sync", "param_server"),
                 "--clip-norm does not go with --sync param_server"),
                (("--optimizer", "muon", "--sync", "param_server"),
                 "--optimizer muon does not go with --sync param_server"),
                (("--optimizer", "sgd:ema=0.9", "--sync", "local_sgd:every=2"),
                 "--optimizer sgd:ema=0.9 does not go with --sync local_sgd")):
            self.assertIn(said, self.train(*words, "--workers", 2, code=2))
        self.assertIn("label-smoothing", self.train("--label-smoothing", 1, code=2))


if __name__ == "__main__":
    unittest.main()
