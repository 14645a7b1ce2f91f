# SPDX-License-Identifier: Apache-2.0
"""shoal export --onnx: the file gives our net's scores, read and run in double by PyTorch's
operations here, and by onnxruntime itself where that is installed (make check-frameworks)."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import shoal

try:
    import torch
except ImportError:
    print("no PyTorch here")
    sys.exit(shoal.SKIP)

import onnx_run

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

SEED = int(os.environ.get("SHOAL_TEST_SEED", "20181"))
CLOSE = 1e-4
# Each form of a layer once: what is small stands in for the zoo.
IMAGES = {
    "plain": ["conv:out=6,kernel=3,pad=1", "relu", "maxpool:stride=2", "conv:out=8,kernel=3",
              "sigmoid", "avgpool:kernel=3,stride=2,ceil", "dropout:rate=0.2", "flatten",
              "dense:out=12", "tanh", "dense:out=10"],
    "branches": ["conv:out=8,kernel=3,pad=1,bias=off", "batchnorm", "relu",
                 "conv:out=8,kernel=3,pad=1,bias=off", "batchnorm", "add:back=3", "silu",
                 "maxpool:kernel=3,stride=2,pad=1", "branch:back=1", "conv:out=4,kernel=1",
                 "concat:back=2", "gelu", "avgpool:kernel=14", "dense:out=10"],
    "circulant": ["conv:out=8,kernel=3", "relu", "circulant_conv:out=12,kernel=3,block=4",
                  "maxpool:stride=2", "circulant:out=20,block=8", "relu", "dense:out=10"],
    "groups": ["conv:out=8,kernel=3", "relu", "lrn:size=3,alpha=0.5,k=2",
               "maxpool:kernel=3,stride=2,ceil", "conv:out=12,kernel=3,pad=1,groups=4", "relu",
               "lrn:alpha=1,beta=0.6", "conv:out=12,kernel=1,groups=12,bias=off",
               "avgpool:kernel=13", "dense:out=10"],
    "means": ["conv:out=4,kernel=3", "maxpool:kernel=3,stride=2,pad=1",
              "avgpool:kernel=3,stride=1,pad=1,include_pad", "tanh",
              "avgpool:kernel=4,stride=3,pad=2", "avgpool:kernel=2,ceil", "dense:out=10"],
    "frames": ["framewise:out=12", "rmsnorm", "attention:heads=3", "framepool:by=mean",
               "dense:out=10"],
    "dots": ["dense:out=12", "tanh", "dots:width=3,keep=1", "dense:out=8", "tanh",
             "dots:width=4,by=value", "dense:out=10"],
    "first": ["framewise:out=12,k=4", "tanh", "layernorm", "framepool:by=first", "dense:out=10"],
}  # fmt: skip
TOKENS = {
    "llama": ["lookup:vocab=257,width=16,frames", "branch:back=1", "rmsnorm",
              "attention:heads=4,kv=2,causal,rope", "add:back=3", "rmsnorm", "swiglu:ff=24",
              "add:back=3", "rmsnorm", "framewise:out=257,tied,bias=off"],
    "bert": ["lookup:vocab=258,width=16,frames,positions=12,types=2", "layernorm:bias",
             "attention:heads=2,bias", "add:back=2", "layernorm:bias", "framewise:out=16", "gelu",
             "layernorm:bias", "framewise:out=258,tied,bias=off", "bias", "masked"],
    "gpt2": ["lookup:vocab=257,width=16,frames,positions=40", "layernorm:bias",
             "attention:heads=2,causal,bias", "add:back=3", "layernorm:bias", "framewise:out=24",
             "gelu:tanh", "framewise:out=16", "add:back=5", "framewise:out=257,bias=off"],
}  # fmt: skip


def run(*words):
    done = shoal.run(*words)
    assert done.returncode == 0, done.stderr
    return done


class OnnxTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-onnx-"))
        torch.manual_seed(SEED)
        print(f"seed {SEED}")
        run("data", "digits", "--out", cls.path("digits"), "--train", "60", "--test", "20",
                  "--quiet")
        with open(cls.path("words.txt"), "w", encoding="utf-8") as file:
            file.write("what stands here is read again and again " * 200)
        run("data", "text", "--from", cls.path("words.txt"), "--out", cls.path("text"),
                  "--length", "12", "--tokens", "bytes", "--quiet")

    @classmethod
    def path(cls, name):
        return os.path.join(cls.root, name)

    def trained(self, name, layers, data):
        """A run of three steps; its folder and its evaluation by us."""
        shape = [1, 12, 1] if data == "text" else [1, 28, 28]
        with open(self.path(f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump({"name": name, "input": shape, "layers": layers}, file)
        folder = self.path(f"run-{name}")
        run("train", "--model", self.path(f"{name}.json"), "--data", self.path(data),
                  "--steps", "3", "--batch", "8", "--lr", "0.05", "--no-eval", "--quiet",
                  "--out", folder)
        run("export", "--from", folder, "--onnx", self.path(f"{name}.onnx"))
        said = json.loads(run("eval", "--from", folder, "--json").stdout)
        return self.path(f"{name}.onnx"), said["float32"]

    def loss(self, scores, labels):
        scores = scores.reshape(-1, scores.shape[-1])
        return torch.nn.functional.cross_entropy(scores, labels.reshape(-1)).item()

    def both(self, path, x):
        """Scores by PyTorch's operations; onnxruntime's are the same."""
        model = onnx_run.Model(path)
        x = x.reshape(model.shape)
        scores = model.run(x if x.dtype == torch.int64 else x.double())
        if onnxruntime is not None:
            session = onnxruntime.InferenceSession(path)
            given = x if x.dtype == torch.int64 else x.float()
            (theirs,) = session.run(None, {"input": given.numpy()})
            self.assertLess((torch.from_numpy(theirs) - scores).abs().max().item(), CLOSE)
        return model, scores

    def digits(self, about):
        with open(self.path("digits/t10k-images-idx3-ubyte"), "rb") as file:
            pixels = torch.frombuffer(bytearray(file.read()[16:]), dtype=torch.uint8)
        with open(self.path("digits/t10k-labels-idx1-ubyte"), "rb") as file:
            labels = torch.frombuffer(bytearray(file.read()[8:]), dtype=torch.uint8)
        mean, deviation = float(about["mean"]), float(about["deviation"])
        return (pixels.reshape(-1, 1, 28, 28) / 255.0 - mean) / deviation, labels.long()

    def test_images(self):
        for name, layers in IMAGES.items():
            with self.subTest(name):
                path, ours = self.trained(name, layers, "digits")
                x, labels = self.digits(onnx_run.Model(path).about)
                model, scores = self.both(path, x)
                self.assertEqual([17], model.opset)
                self.assertAlmostEqual(ours["loss"], self.loss(scores, labels), delta=CLOSE)
                right = (scores.argmax(1) == labels).double().mean().item() * 100
                self.assertAlmostEqual(ours["accuracy"], right, delta=1e-6)

    def test_tokens(self):
        """Beside net_scores, which a build with tests has."""
        program = os.path.join(shoal.BUILD, "tests", "net_scores")
        if not os.path.exists(program):
            self.skipTest("net_scores was not built")
        for name, layers in TOKENS.items():
            with self.subTest(name):
                path, _ = self.trained(name, layers, "text")
                weights = self.path(f"{name}.safetensors")
                run("export", "--from", self.path(f"run-{name}"), "--safetensors", weights)
                ids = torch.randint(0, 516 if name == "bert" else 257, (2, 12))
                _, scores = self.both(path, ids)
                for sample in range(2):
                    lines = "\n".join(map(str, ids[sample].tolist()))
                    said = subprocess.run(
                        [program, self.path(f"{name}.json"), weights], input=lines, text=True,
                        capture_output=True, timeout=60, check=True)  # fmt: skip
                    ours = torch.tensor([float(v) for v in said.stdout.split()]).double()
                    found = (ours - scores[sample].reshape(-1)).abs().max().item()
                    self.assertLess(found, CLOSE)

    def evaluated(self, path):
        said = run("eval", "--from", path, "--data", self.path("digits"), "--json").stdout
        return json.loads(said)["float32"]

    def test_its_weights_come_back(self):
        layers = ["conv:out=6,kernel=3,pad=1,bias=off", "batchnorm", "relu",
                  "conv:out=6,kernel=3,pad=1", "add:back=2", "silu", "maxpool:stride=2",
                  "branch:back=1", "conv:out=4,kernel=1", "concat:back=2", "avgpool:kernel=14",
                  "dense:out=10"]  # fmt: skip
        for name, those in (("again", layers), ("grouped", IMAGES["groups"]),
                            ("pools", IMAGES["means"])):
            path, ours = self.trained(name, those, "digits")
            back = self.evaluated(path)
            self.assertAlmostEqual(ours["loss"], back["loss"], delta=1e-6)

    def test_a_run_begins_with_them(self):
        """Behind one step that moves nothing to speak of."""
        path, ours = self.trained("starts", ["dense:out=8", "tanh", "dense:out=10"], "digits")
        out = self.path("goes-on")
        run("train", "--model", path, "--start", path, "--data", self.path("digits"), "--steps",
            "1", "--lr", "1e-9", "--batch", "8", "--no-eval", "--quiet", "--out", out)
        back = json.loads(run("eval", "--from", out, "--json").stdout)["float32"]
        self.assertAlmostEqual(ours["loss"], back["loss"], delta=1e-5)

    def torch_file(self, name, **options):
        """What PyTorch itself writes, and its loss on the test set."""
        net = torch.nn.Sequential(
            torch.nn.Conv2d(1, 5, 3, padding=1), torch.nn.BatchNorm2d(5, eps=1e-3),
            torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
            torch.nn.Linear(5 * 14 * 14, 16, bias=False), torch.nn.Tanh(),
            torch.nn.Linear(16, 10))  # fmt: skip
        net[1].running_mean.normal_()
        net[1].running_var.uniform_(0.5, 2)
        net.eval()
        path = self.path(name)
        torch.onnx.export(net, torch.zeros(1, 1, 28, 28), path, **options)
        with open(self.path("digits/train-images-idx3-ubyte"), "rb") as file:
            pixels = torch.frombuffer(bytearray(file.read()[16:]), dtype=torch.uint8) / 255.0
        about = {"mean": pixels.mean().item(), "deviation": pixels.std().item()}
        x, labels = self.digits(about)
        with torch.no_grad():
            return path, self.loss(net(x.float()), labels)

    @unittest.skipIf(torch.__version__ >= "2", "its exporter asks for onnxscript")
    def test_a_file_of_pytorch_comes_in(self):
        """Its batch norm is folded into the convolution, or stays."""
        training = torch.onnx.TrainingMode.PRESERVE
        for name, options in (("folded.onnx", {}), ("apart.onnx", {"training": training})):
            with self.subTest(name):
                path, theirs = self.torch_file(name, **options)
                self.assertAlmostEqual(theirs, self.evaluated(path)["loss"], delta=1e-3)

    def test_weights_that_do_not_fit_are_named(self):
        path, _ = self.trained("fits", ["dense:out=8", "relu", "dense:out=10"], "digits")
        done = shoal.run("eval", "--from", path, "--model", "lenet", "--data",
                         self.path("digits"))  # fmt: skip
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertIn("has other layers (4) than model lenet", done.stderr)
        path, _ = self.trained("gelu", ["dense:out=8", "gelu", "dense:out=10"], "digits")
        done = shoal.run("eval", "--from", path, "--data", self.path("digits"))
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertIn("its layer computes something else", done.stderr)
        done = shoal.run("eval", "--from", path)
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertIn("on which data?", done.stderr)

    def test_what_has_no_form_is_named_and_nothing_is_written(self):
        run("data", "text", "--from", self.path("words.txt"), "--out", self.path("letters"),
            "--length", "12", "--quiet")
        with open(self.path("cells.json"), "w", encoding="utf-8") as file:
            layers = ["onehot:classes=64", "lstm:out=6", "framewise:out=64"]
            json.dump({"name": "cells", "input": [1, 12, 1], "layers": layers}, file)
        folder, out = self.path("run-cells"), self.path("cells.onnx")
        run("train", "--model", self.path("cells.json"), "--data", self.path("letters"), "--steps",
            "1", "--no-eval", "--quiet", "--out", folder)
        done = shoal.run("export", "--from", folder, "--onnx", out)
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertIn("onehot1 (onehot) has no form in ONNX", done.stderr)
        self.assertFalse(os.path.exists(out))

    def test_options_that_do_not_go_with_it(self):
        for words in (["--out", "x"], ["--fixed", "12"], ["--clock", "50"]):
            done = shoal.run("export", "--from", "none", "--onnx", self.path("x.onnx"), *words)
            self.assertEqual(2, done.returncode)
            self.assertIn("--safetensors and --onnx are of float32", done.stderr)


if __name__ == "__main__":
    unittest.main()
