# SPDX-License-Identifier: Apache-2.0
"""Weights out to PyTorch's modules and in from them: the same losses both ways, and what does not
fit is said by name."""
import collections
import json
import math
import os
import struct
import sys
import tempfile
import unittest

import numpy

import shoal
import tensor_file

try:
    import torch
    from torch import nn
except ImportError:
    print("no PyTorch here")
    sys.exit(shoal.SKIP)

SEED = int(os.environ.get("SHOAL_TEST_SEED", "20181"))
SAMPLES = 6


def read_file(path):
    return {name: torch.from_numpy(array) for name, array in tensor_file.read(path).items()}


def write_file(path, tensors):
    tensor_file.write(path, {name: tensor.numpy() for name, tensor in tensors.items()})


class Lstm(nn.LSTM):
    def forward(self, x):
        return super().forward(x)[0]


def lenet():
    return [("conv1", nn.Conv2d(1, 20, 5)), ("p1", nn.MaxPool2d(2)), ("r1", nn.ReLU()),
            ("conv2", nn.Conv2d(20, 50, 5)), ("p2", nn.MaxPool2d(2)), ("r2", nn.ReLU()),
            ("f", nn.Flatten()), ("dense1", nn.Linear(800, 500)), ("r3", nn.ReLU()),
            ("dense2", nn.Linear(500, 10))]  # fmt: skip


NORMED = ["conv:out=6,kernel=3,pad=1", "batchnorm", "relu", "conv:out=9,kernel=3,pad=1,groups=3",
          "lrn:alpha=0.5,k=2", "avgpool:kernel=4", "flatten", "dense:out=10"]  # fmt: skip


def normed():
    return [("conv1", nn.Conv2d(1, 6, 3, padding=1)),
            ("batchnorm1", nn.BatchNorm2d(6)), ("r", nn.ReLU()),
            ("conv2", nn.Conv2d(6, 9, 3, padding=1, groups=3)),
            ("l", nn.LocalResponseNorm(5, alpha=0.5, k=2)), ("p", nn.AvgPool2d(4)),
            ("f", nn.Flatten()), ("dense1", nn.Linear(441, 10))]  # fmt: skip


def lstm_text():
    return [("lstm1", Lstm(64, 512, batch_first=True)), ("framewise1", nn.Linear(512, 64))]


def read_digits(folder):
    with open(os.path.join(folder, "t10k-images-idx3-ubyte"), "rb") as f:
        test = numpy.frombuffer(f.read(), "u1", offset=16).reshape(-1, 1, 28, 28)
    with open(os.path.join(folder, "train-images-idx3-ubyte"), "rb") as f:
        train = numpy.frombuffer(f.read(), "u1", offset=16).astype("f8") / 255
    with open(os.path.join(folder, "t10k-labels-idx1-ubyte"), "rb") as f:
        labels = numpy.frombuffer(f.read(), "u1", offset=8)
    x = (test[:SAMPLES] / 255 - train.mean()) / train.std()
    return torch.tensor(x, dtype=torch.float32), torch.tensor(labels[:SAMPLES].astype("i8"))


def read_text(folder):
    with open(os.path.join(folder, "test.shoalseq"), "rb") as f:
        raw = f.read()
    count, _, frames = struct.unpack_from("<IIQ", raw, 24)
    length = struct.unpack_from("<I", raw, 40)[0]
    labels = numpy.frombuffer(raw, "<u2", frames, 40 + 4 * count).reshape(-1, length)
    x = numpy.frombuffer(raw, "<f4", frames, 40 + 4 * count + 2 * frames).reshape(-1, length)
    x = torch.tensor(x[:SAMPLES].astype("i8"))
    return nn.functional.one_hot(x, 64).float(), torch.tensor(labels[:SAMPLES].astype("i8"))


class Weights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"seed {SEED}")
        torch.manual_seed(SEED)
        torch.set_num_threads(1)
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-test-"))
        cls.digits, cls.text = (os.path.join(cls.folder, n) for n in ("digits", "text"))
        for args in (("digits", "--out", cls.digits, "--train", 200, "--test", 40),
                     ("text", "--out", cls.text, "--length", 32,
                      os.path.join(shoal.ROOT, "LICENSE"))):  # fmt: skip
            made = shoal.run("data", *args)
            assert made.returncode == 0, made.stderr
        cls.normed = os.path.join(cls.folder, "normed.json")
        with open(cls.normed, "w", encoding="ascii") as f:
            json.dump({"name": "n", "input": [1, 28, 28], "layers": NORMED}, f)

    def path(self, name):
        return os.path.join(self.folder, name)

    def done(self, *args):
        result = shoal.run(*args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def loss(self, *args):
        said = json.loads(self.done("eval", "--json", "--samples", SAMPLES, *args))
        return said["float32"]["loss"]

    def both_ways(self, name, model, layers, data, samples):
        """Ours are trained a little, read there; theirs are drawn, read here."""
        x, labels = samples
        net = nn.Sequential(collections.OrderedDict(layers))
        run, file = self.path(name), self.path(name + ".safetensors")
        self.done("train", "--model", model, "--data", data, "--steps", 2, "--batch", 4, "--lr",
                  "0.02", "--no-eval", "--quiet", "--out", run)  # fmt: skip
        self.done("export", "--from", run, "--safetensors", file)

        def theirs():
            with torch.no_grad():
                scores = net.eval()(x)
                return nn.functional.cross_entropy(
                    scores.reshape(-1, scores.shape[-1]), labels.reshape(-1)
                ).item()

        net.load_state_dict(read_file(file))
        self.assertAlmostEqual(self.loss("--from", run), theirs(), delta=1e-4)
        with torch.no_grad():
            for one in net.parameters():
                one.copy_(torch.randn_like(one) / math.sqrt(one[0].numel() + 1))
            for key, one in net.named_buffers():
                if "running" in key:
                    one.copy_(torch.rand_like(one) + 0.5)
        write_file(file, net.state_dict())
        self.assertAlmostEqual(self.loss("--from", file, "--model", model, "--data", data),
                               theirs(), delta=1e-4)  # fmt: skip
        return file, net

    def test_lenet(self):
        file, net = self.both_ways("lenet", "lenet", lenet(), self.digits,
                                   read_digits(self.digits))  # fmt: skip
        # training begins with them: a rate of next to nothing leaves them as they are
        self.done("train", "--model", "lenet", "--data", self.digits, "--start", file, "--steps", 1,
                  "--lr", "1e-12", "--no-eval", "--quiet", "--workers", 2, "--out",
                  self.path("start"))  # fmt: skip
        self.done("export", "--from", self.path("start"), "--safetensors", self.path("same"))
        for name, tensor in read_file(self.path("same")).items():
            self.assertLess((tensor - net.state_dict()[name]).abs().max(), 1e-6, name)

    def test_batch_norm(self):
        self.both_ways("normed", self.normed, normed(), self.digits, read_digits(self.digits))

    def test_lstm(self):
        self.both_ways("lstm", "lstm-text:length=32", lstm_text(), self.text, read_text(self.text))

    def test_what_does_not_fit_is_named(self):
        net = nn.Sequential(collections.OrderedDict(lenet()))
        good = net.state_dict()
        double = dict(good, **{"conv1.bias": good["conv1.bias"].double()})
        less = {name: one for name, one in good.items() if name != "dense2.bias"}
        file = self.path("bad.safetensors")
        for tensors, part in (
            (less, "no tensor dense2.bias of shape [10]"),
            (dict(good, **{"dense2.bias": torch.zeros(11)}), "is F32 [11], wanted F32 [10]"),
            (dict(good, **{"dense1.weight": good["dense1.weight"].T.contiguous()}),
             "dense1.weight is F32 [800, 500], wanted F32 [500, 800]"),
            (double, "conv1.bias is F64 [20], wanted F32 [20]"),
            (dict(good, **{"conv3.bias": torch.zeros(3)}), "conv3.bias has no place"),
        ):  # fmt: skip
            write_file(file, tensors)
            for args in (("train", "--steps", 1, "--start", file), ("eval", "--from", file)):
                if tensors is not less and args[0] == "eval":
                    continue
                said = shoal.run(*args, "--model", "lenet", "--data", self.digits)
                self.assertEqual(said.returncode, 2, said.stderr)
                self.assertIn(part, said.stderr)
        said = shoal.run("train", "--model", "lenet:circulant=4", "--data", self.digits, "--start",
                         file, "--steps", 1)  # fmt: skip
        self.assertEqual(said.returncode, 2)
        self.assertIn("has no counterpart in PyTorch", said.stderr)
        for args in (("--out", "x"), ("--fixed", 12), ("--clock", 5)):
            said = shoal.run("export", "--from", "x", "--safetensors", file, *args)
            self.assertEqual(said.returncode, 2)
            self.assertIn("--safetensors and --onnx are of float32", said.stderr)


if __name__ == "__main__":
    unittest.main()
