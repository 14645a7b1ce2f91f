# SPDX-License-Identifier: Apache-2.0
"""Models with branches through the whole command: two workers train as one, runs go on bit for bit,
resnet-8 and resnet-18 beside PyTorch in double, and who cannot do branches says so."""
import array
import json
import os
import shutil
import tempfile
import unittest

import shoal
import train_test

try:
    import numpy as np
    import torch
    from torch.nn import functional
except ImportError:
    torch = None

SIDE, CLASSES = train_test.SIDE, train_test.CLASSES
SAMPLES = 48
#: A block with a way around it, then two ways (one a pool) put side by side.
LAYERS = ["conv:out=4,kernel=3,pad=1", "tanh", "conv:out=4,kernel=3,pad=1", "add:back=2", "tanh",
          "conv:out=3,kernel=1", "branch:back=2", "maxpool:kernel=3,stride=1,pad=1",
          "concat:back=3", "flatten", f"dense:out={CLASSES}"]
#: AlexNet's kinds: convolutions of groups, local response normalisation, dropout.
GROUPED = ["conv:out=4,kernel=3,pad=1", "relu", "lrn:alpha=1,k=2", "conv:out=6,kernel=3,groups=2",
           "relu", "lrn:size=3,alpha=1", "avgpool:kernel=3,stride=2,pad=1,include_pad", "flatten",
           "dense:out=8", "relu", "dropout:rate=0.3", f"dense:out={CLASSES}"]
NORMED = [*LAYERS[:3], "batchnorm", "add:back=3", "relu", *LAYERS[5:]]


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="shoal-graph-")
        train_test.write_data(cls.folder, SAMPLES, 12)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def model(self, name, layers):
        path = self.path(name + ".json")
        with open(path, "w", encoding="ascii") as f:
            json.dump({"name": name, "input": [1, SIDE, SIDE], "layers": layers}, f)
        return path

    def train(self, out, model, *args, data=None, batch=SAMPLES, code=0):
        usual = {"--model": model, "--data": data or self.folder, "--lr": 0.1, "--epochs": 1000,
                 "--batch": batch, "--schedule": "constant"}
        given = () if "--resume" in args else shoal.usual(usual, args)
        r = shoal.run("train", *given, *args, "--out", self.path(out), "--quiet")
        self.assertEqual(r.returncode, code, r.stderr)
        return r.stderr if code else train_test.read_weights(self.path(out))


class Graphs(Training):
    def test_two_workers_train_as_one_with_the_whole_batch(self):
        """A step sees all samples, so their order does not matter: only the order of sums differs,
        between 1 and 2 workers, and not between overlapped and whole exchanges."""
        model = self.model("plain", LAYERS)
        first = self.train("first", model, "--steps", 1, "--lr", 1e-9)
        one = self.train("one", model, "--steps", 10)
        two = self.train("two", model, "--steps", 10, "--workers", 2, batch=SAMPLES // 2)
        late = self.train("late", model, "--steps", 10, "--workers", 2, "--no-overlap",
                          batch=SAMPLES // 2)
        self.assertEqual(two, late)
        self.assertIn("conv3.weight", one)
        for name in (key for key in one if key.endswith((".weight", ".bias"))):
            start, a, b = (array.array("f", run[name]) for run in (first, one, two))
            moved = max(abs(x - y) for x, y in zip(start, a))
            self.assertGreater(moved, 1e-3, name)
            self.assertLess(max(abs(x - y) for x, y in zip(a, b)), 1e-4 * moved + 1e-7, name)

    def goes_on(self, name, layers, at, *args):
        """Six steps an epoch; a stop tests, which takes the mean of running statistics."""
        model, out = self.model(name, layers), self.path("part-" + name)
        whole = self.train("whole-" + name, model, *args, "--steps", 12, batch=4)
        self.train(out, model, *args, "--steps", at, batch=4)
        self.assertEqual(whole, self.train(out, model, "--resume", out, "--steps", 12), name)
        return whole

    def test_a_run_goes_on_bit_for_bit(self):
        self.goes_on("plain", LAYERS, 5, "--workers", 2)
        self.goes_on("grouped", GROUPED, 5, "--workers", 2, "--codec", "terngrad")
        whole = self.goes_on("normed", NORMED, 6, "--workers", 2, "--codec", "terngrad")
        self.assertIn("batchnorm.state", whole)

    def test_what_cannot_be_done_is_refused_by_name(self):
        plain = self.model("plain", LAYERS)
        plan = self.path("plan.json")
        r = shoal.run("partition", "--model", plain, "--workers", 2, "--batch", 16, "--out", plan)
        self.assertIn("add1 ('add:back=2') cannot be divided by the trainer", r.stdout)
        said = self.train("planned", plain, "--workers", 2, "--plan", plan, batch=8, code=77)
        self.assertIn("add1 ('add:back=2') cannot be divided", said)
        grouped = self.model("grouped", ["conv:out=4,kernel=3", "relu", *GROUPED[3:5],
                                         "flatten", f"dense:out={CLASSES}"])
        r = shoal.run("partition", "--model", grouped, "--workers", 2, "--batch", 16, "--out", plan)
        self.assertIn("conv2 ('conv:out=6,groups=2') cannot be divided", r.stdout)
        said = self.train("planned", grouped, "--workers", 2, "--plan", plan, batch=8, code=77)
        self.assertIn("cannot be divided", said)
        self.train("grouped", grouped, "--steps", 1)
        r = shoal.run("export", "--from", self.path("grouped"), "--data", self.folder, "--out",
                      self.path("c"))
        self.assertIn("conv2 ('conv:out=6,groups=2') has no form in fixed point", r.stderr)
        vectors = self.model("vectors", ["flatten", "dense:out=8", "relu", "dense:out=8",
                                         "add:back=2", "dense:out=4"])
        self.train("vectors", vectors, "--steps", 1)
        r = shoal.run("export", "--from", self.path("vectors"), "--data", self.folder, "--out",
                      self.path("c"))
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("add1 ('add:back=2') has no form in fixed point", r.stderr)
        for layers, code, text in (
            (["flatten", "dense:out=8", "dense:out=8", "branch:back=2", "dense:out=4"], 77,
             "nothing reads what layer 3, dense2"),
            (["flatten", "dense:out=8", "add:back=4", "dense:out=4"], 2, "beyond the model's"),
            (["flatten", "dense:out=8", "add:back=2", "dense:out=4"], 2, "cannot add"),
            (["flatten", "dense:out=8", "concat:back=2/x", "dense:out=4"], 2, "numbers of layers"),
        ):
            self.assertIn(text, self.train("bad", self.model("bad", layers), code=code))


# ---------------------------------------------------------------- resnets beside PyTorch

def checkpoint(weights):
    """Float32 bytes by name as arrays."""
    return {name: np.frombuffer(part, "<f4").astype(np.float64) for name, part in weights.items()}


class Resnet:
    """He et al., CVPR 2016, with projections; tensors in the order in which blocks use them."""

    def __init__(self, weights, width, stages, blocks):
        self.tensors = {name: torch.tensor(values, requires_grad=name != "batchnorm.state")
                        for name, values in weights.items()}
        self.plan = [(width << stage, 2 if stage and not block else 1)
                     for stage in range(stages) for block in range(blocks)]
        self.width, self.running, self.used = width, [], 0
        while f"batchnorm{len(self.running) + 1}.scale" in weights:
            like = self.tensors[f"batchnorm{len(self.running) + 1}.scale"].detach()
            self.running.append((torch.zeros_like(like), torch.ones_like(like)))

    def conv_norm(self, x, out, kernel, stride):
        self.used += 1
        weight = self.tensors[f"conv{self.used}.weight"].reshape(out, x.shape[1], kernel, kernel)
        x = functional.conv2d(x, weight, stride=stride, padding=kernel // 2)
        mean, variance = self.running[self.used - 1]
        return functional.batch_norm(x, mean, variance,
                                     self.tensors[f"batchnorm{self.used}.scale"],
                                     self.tensors[f"batchnorm{self.used}.shift"], training=True)

    def __call__(self, x):
        self.used = 0
        x = functional.relu(self.conv_norm(x, self.width, 3, 1))
        for out, stride in self.plan:
            y = functional.relu(self.conv_norm(x, out, 3, stride))
            y = self.conv_norm(y, out, 3, 1)
            x = functional.relu(y + (x if stride == 1 else self.conv_norm(x, out, 1, stride)))
        x = x.mean(dim=(2, 3))
        return functional.linear(x, self.tensors["dense1.weight"].reshape(10, -1),
                                 self.tensors["dense1.bias"])

    def state(self):
        return torch.cat([part for pair in self.running for part in pair]).numpy()


@unittest.skipIf(torch is None, "no torch or no numpy for Python")
class Resnets(Training):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        r = shoal.run("data", "colours", "--out", cls.path("colours"), "--train", 32, "--test", 8,
                      "--quiet")
        if r.returncode != 0:
            raise AssertionError(r.stderr)

    def images(self, count):
        rows = [np.fromfile(self.path(f"colours/data_batch_{i}.bin"), np.uint8)
                for i in range(1, 6)]
        rows = np.concatenate(rows).reshape(count, 3073)
        pixels = rows[:, 1:].reshape(count, 3, 32, 32) / 255
        pixels -= pixels.mean(axis=(0, 2, 3), keepdims=True)
        pixels /= pixels.std(axis=(0, 2, 3), keepdims=True)
        return torch.tensor(pixels), torch.tensor(rows[:, 0].astype(np.int64))

    def beside(self, name, steps, *shape):
        """As many steps on all 32 samples; losses step by step, weights and statistics behind."""
        torch.set_num_threads(1)
        args = {"data": self.path("colours"), "batch": 32}
        first = self.train(name + "-0", name, "--steps", 1, "--lr", 1e-12, **args)
        first = {key: part for key, part in first.items() if not key.startswith("optimizer")}
        got = checkpoint(self.train(name, name, "--steps", steps, "--lr", 0.02, "--optimizer",
                                    "sgd:momentum=0.9", **args))
        net, (x, labels) = Resnet(checkpoint(first), *shape), self.images(32)
        trained = [t for t in net.tensors.values() if t.requires_grad]
        optimizer = torch.optim.SGD(trained, 0.02, momentum=0.9)
        with open(os.path.join(self.path(name), "metrics.jsonl"), encoding="utf-8") as f:
            losses = [line["loss"] for line in map(json.loads, f) if "update_us" in line]
        self.assertEqual(len(losses), steps)
        for loss in losses:
            optimizer.zero_grad()
            expected = functional.cross_entropy(net(x), labels)
            expected.backward()
            optimizer.step()
            self.assertLess(abs(loss - expected.item()), 1e-3)
        self.assertEqual(set(got) - set(net.tensors), {"optimizer.momentum"})
        for key, tensor in net.tensors.items():
            want = tensor.detach().numpy() if tensor.requires_grad else net.state()
            self.assertLess(np.abs(got[key] - want).max(), 2e-3 * max(1, np.abs(want).max()), key)
        moved = got["conv1.weight"] - checkpoint(first)["conv1.weight"]
        self.assertGreater(np.abs(moved).max(), 1e-2)

    def test_resnet_8(self):
        self.beside("resnet-8", 5, 16, 3, 1)


if __name__ == "__main__":
    unittest.main()
