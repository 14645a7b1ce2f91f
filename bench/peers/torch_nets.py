#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of PyTorch (Debian's python3-torch) for nets of our zoo, of the same shapes:
forward, loss, backward, optimiser. Images by SGD with momentum, tokens by AdamW.

Prints one line of JSON: milliseconds of the median and of the fastest step, the least CPU time of
one, parameters, and the process's peak memory before the net was made and at the end. Paths:
onednn, native (im2col and BLAS); of tokens they are the same."""

import argparse
import json
import math
import os
import resource
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", required=True,
                    choices=("lenet", "vgg-mini", "resnet-18", "gpt-nano", "bert-mini"))
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--path", choices=("onednn", "native"), default="onednn")
parser.add_argument("--precision", choices=("float32", "bf16"), default="float32",
                    help="bf16: as torch.autocast does it")  # fmt: skip
parser.add_argument("--seconds", type=float, default=2.0, help="to time, after three steps")
args = parser.parse_args()
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(args.threads)

import torch  # noqa: E402  (after the environment)
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(1)
LENGTH, MASKED = 128, 0.15


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(inplace=True),
        nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU(inplace=True),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(inplace=True), nn.Linear(500, 10))  # fmt: skip


def vgg_mini():
    layers, channels = [], 3
    for out in (64, 128, 256):
        for _ in range(2):
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU(inplace=True)]
            channels = out
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4096, 10))


def conv_norm(inputs, out, kernel, stride):
    conv = nn.Conv2d(inputs, out, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out))


class Block(nn.Module):
    def __init__(self, inputs, out, stride):
        super().__init__()
        self.first, self.second = conv_norm(inputs, out, 3, stride), conv_norm(out, out, 3, 1)
        self.beside = conv_norm(inputs, out, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = self.second(functional.relu(self.first(x), inplace=True))
        return functional.relu(y + self.beside(x), inplace=True)


def resnet_18():
    layers, inputs = [conv_norm(3, 64, 3, 1), nn.ReLU(inplace=True)], 64
    for stage, out in enumerate((64, 128, 256, 512)):
        for i in range(2):
            layers.append(Block(inputs, out, 2 if i == 0 and stage > 0 else 1))
            inputs = out
    return nn.Sequential(*layers, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(512, 10))


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.both = heads, nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        hidden = torch.full((LENGTH, LENGTH), -math.inf).triu(1) if causal else None
        self.register_buffer("hidden", hidden, persistent=False)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2)
                   for part in self.both(x).split(w, 2))  # fmt: skip
        scores = q @ k.transpose(2, 3) * (1 / math.sqrt(w // self.heads))
        scores = scores if self.hidden is None else scores + self.hidden
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, w))


class Tokens(nn.Module):
    """GPT-2's blocks, norms in front, or BERT's, norms behind the sums."""

    def __init__(self, vocab, width, blocks, heads, positions, bert):
        super().__init__()
        self.bert = bert
        self.table, self.places = nn.Embedding(vocab, width), nn.Embedding(positions, width)
        if bert:
            self.types, self.norm = nn.Embedding(2, width), nn.LayerNorm(width)
            self.transform, self.bias = nn.Linear(width, width), nn.Parameter(torch.zeros(vocab))
        self.last, self.blocks = nn.LayerNorm(width), nn.ModuleList()
        for _ in range(blocks):
            self.blocks.append(nn.ModuleList([
                nn.LayerNorm(width), Attention(width, heads, not bert), nn.LayerNorm(width),
                nn.Linear(width, 4 * width), nn.Linear(4 * width, width)]))  # fmt: skip
        for table in (self.table, self.places):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids):
        x = self.table(ids) + self.places.weight[: ids.shape[1]]
        if self.bert:
            x = self.norm(x + self.types.weight[0])
        for one, attention, other, up, down in self.blocks:
            if self.bert:
                x = one(x + attention(x))
                x = other(x + down(functional.gelu(up(x))))
            else:
                x = x + attention(one(x))
                x = x + down(functional.gelu(up(other(x)), approximate="tanh"))
        if self.bert:
            x = self.last(functional.gelu(self.transform(x)))
            return functional.linear(x, self.table.weight, self.bias)
        return functional.linear(self.last(x), self.table.weight)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


before = peak()
images = {"lenet": (lenet, (1, 28, 28)), "vgg-mini": (vgg_mini, (3, 32, 32)),
          "resnet-18": (resnet_18, (3, 32, 32))}  # fmt: skip
if args.model in images:
    make, shape = images[args.model]
    model, x, labels = make(), torch.randn(args.batch, *shape), torch.arange(args.batch) % 10
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
else:
    bert = args.model == "bert-mini"
    model = Tokens(258, 256, 4, 4, 512, True) if bert else Tokens(257, 128, 4, 4, 128, False)
    x, labels = (torch.randint(256, (args.batch, LENGTH)) for _ in range(2))
    if bert:
        labels[torch.rand(labels.shape) >= MASKED] = -100  # cross entropy leaves these out
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)


def step():
    optimiser.zero_grad(set_to_none=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
        y = model(x)
        loss = functional.cross_entropy(y.float().flatten(0, -2), labels.flatten())
    loss.backward()
    optimiser.step()


times, cpu_times = [], []
with torch.backends.mkldnn.flags(enabled=args.path == "onednn"):
    for _ in range(3):
        step()
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end or len(times) < 3:
        begin, cpu = time.perf_counter(), time.process_time()
        step()
        times.append((time.perf_counter() - begin) * 1e3)
        cpu_times.append((time.process_time() - cpu) * 1e3)
times.sort()
print(json.dumps({
    "peer": "torch " + torch.__version__, "model": args.model, "batch": args.batch,
    "threads": args.threads, "path": args.path, "precision": args.precision,
    "steps": len(times), "min_ms": times[0],
    "median_ms": times[len(times) // 2], "min_cpu_ms": min(cpu_times),
    "before_mib": before, "peak_mib": peak(),
    "parameters": sum(p.numel() for p in model.parameters())}))  # fmt: skip
