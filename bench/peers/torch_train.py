#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of PyTorch (Debian's python3-torch) on one thread: forward, loss, backward, SGD
with momentum.

Prints one line of JSON: milliseconds of the fastest and of the median step, and the least CPU time
of one. Paths: onednn, native (im2col and BLAS)."""

import argparse
import json
import os
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", choices=("lenet", "vgg-mini"), required=True)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--path", choices=("onednn", "native"), required=True)
parser.add_argument("--seconds", type=float, default=2.0, help="to time, after two warm-up steps")
args = parser.parse_args()
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import torch  # noqa: E402  (after the environment)
from torch import nn  # noqa: E402

torch.set_num_threads(1)
torch.manual_seed(1)


def lenet():
    return (1, 28, 28), nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


def vgg_mini():
    layers, channels = [], 3
    for out in (64, 128, 256):
        for _ in range(2):
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU()]
            channels = out
        layers.append(nn.MaxPool2d(2))
    return (3, 32, 32), nn.Sequential(*layers, nn.Flatten(), nn.Linear(4096, 10))


shape, model = {"lenet": lenet, "vgg-mini": vgg_mini}[args.model]()
optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loss_of = nn.CrossEntropyLoss()
x = torch.randn(args.batch, *shape)
labels = torch.arange(args.batch) % 10


def step():
    optimiser.zero_grad(set_to_none=False)
    loss_of(model(x), labels).backward()
    optimiser.step()


times, cpu_times = [], []
with torch.backends.mkldnn.flags(enabled=args.path == "onednn"):
    step()
    step()
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        begin, cpu = time.perf_counter(), time.process_time()
        step()
        times.append((time.perf_counter() - begin) * 1e3)
        cpu_times.append((time.process_time() - cpu) * 1e3)
times.sort()
print(json.dumps({"peer": "torch " + torch.__version__, "model": args.model, "batch": args.batch,
                  "path": args.path, "isa": os.environ.get("ONEDNN_MAX_CPU_ISA", "best"),
                  "steps": len(times), "min_ms": times[0],
                  "median_ms": times[len(times) // 2], "min_cpu_ms": min(cpu_times)}))
