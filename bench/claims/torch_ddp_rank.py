#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of torch-ddp: vgg-mini in PyTorch behind DistributedDataParallel, its gradients by
different ways. Rank 0 writes FOLDER/result.json.

    shoal run -n 4 -- bench/claims/torch_ddp_rank.py time FOLDER --way gloo --way "eden:bits=2"

A way is gloo (float32), fp16 or powersgd (PyTorch's own hooks over Gloo), or a codec of Shoal's,
with "@COLLECTIVE" behind it if it is not to be the ring.

time   steps of all ways in turn, round after round: milliseconds of every step by way
train  from one seed by the first way: loss of every step, accuracy on the test images
hook   one rank: how long DDP waits for a bucket of 1000 floats, and the all-reduce alone"""

import argparse
import copy
import datetime
import json
import os
import statistics
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["GLOO_SOCKET_IFNAME"] = "eth0" if "SHOAL_LAB" in os.environ else "lo"

import numpy  # noqa: E402  (after the environment)
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook  # noqa: E402

import shoal  # noqa: E402

# Buckets of a size at which those of the last layers travel while the first layers' gradients are
# made: PyTorch's 25 MB would hold this model's 4.7 MB but for the first megabyte.
LR, BUCKET_MB, POWERSGD_RANK = 0.001, 1, 2
HEADERS = {"images-idx3-ubyte": 16, "labels-idx1-ubyte": 8}  # bytes of MNIST's files


def vgg_mini():
    """The layers of `shoal train --model vgg-mini`, drawn as it draws them."""
    layers, channels = [], 3
    for out in (64, 128, 256):
        for _ in range(2):
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU()]
            channels = out
        layers.append(nn.MaxPool2d(2))
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(4096, 10))
    for layer in model:
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return model


def digits(folder, part):
    """(3 x 32 x 32 images, classes) of what `shoal data digits` made."""
    raw = {}
    for kind, header in HEADERS.items():
        path = os.path.join(folder, f"{part}-{kind}")
        raw[kind] = torch.from_numpy(numpy.fromfile(path, numpy.uint8)[header:])
    pixels = raw["images-idx3-ubyte"].view(-1, 1, 28, 28).float() / 255 - 0.5
    padded = nn.functional.pad(pixels, (2, 2, 2, 2), value=-0.5)
    return padded.expand(-1, 3, -1, -1), raw["labels-idx1-ubyte"].long()


class Way:
    """A replica of a model whose gradients are averaged in one way."""

    def __init__(self, name, model):
        self.name = name
        first = dist._DEFAULT_FIRST_BUCKET_BYTES
        if name == "powersgd":
            # All in one bucket. Of two, its second and third all-reduces start in whatever order
            # callbacks of Gloo's threads come, another one on every rank, and the process aborts.
            dist._DEFAULT_FIRST_BUCKET_BYTES = 1 << 30
        self.ddp = nn.parallel.DistributedDataParallel(
            copy.deepcopy(model), bucket_cap_mb=BUCKET_MB
        )
        dist._DEFAULT_FIRST_BUCKET_BYTES = first
        if name == "fp16":
            self.ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
        elif name == "powersgd":
            state = powerSGD_hook.PowerSGDState(None, POWERSGD_RANK, start_powerSGD_iter=2)
            self.ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        elif name != "gloo":
            codec, _, collective = name.partition("@")
            shoal.ddp(self.ddp, codec=codec, collective=collective or None)
        self.optimizer = torch.optim.Adam(self.ddp.parameters(), lr=LR)

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(self.ddp(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def batches(options, seed):
    """This rank's part of every step's samples, for ever."""
    x, y = digits(options.data, "train")
    order = torch.Generator().manual_seed(seed)
    mine = slice(dist.get_rank() * options.batch, (dist.get_rank() + 1) * options.batch)
    while True:
        whole = torch.randperm(len(x), generator=order)
        for part in whole.split(options.batch * dist.get_world_size()):
            if len(part) == options.batch * dist.get_world_size():
                yield x[part[mine]], y[part[mine]]


def measure_time(options):
    torch.manual_seed(options.seed)
    model = vgg_mini()
    ways = [Way(name, model) for name in options.way]
    source, times = batches(options, options.seed), {way.name: [] for way in ways}
    for turn in range(options.rounds + 1):  # the first one warms up: DDP arranges its buckets anew
        for way in ways:
            for _ in range(options.steps if turn else 4):
                x, y = next(source)
                dist.barrier()
                begin = time.perf_counter()
                way.step(x, y)
                if turn:
                    times[way.name].append((time.perf_counter() - begin) * 1e3)
    return {"parameters": sum(p.numel() for p in model.parameters()), "step_ms": times}


def train(options):
    torch.manual_seed(options.seed)
    way, losses = Way(options.way[0], vgg_mini()), []
    source = batches(options, options.seed)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(way.optimizer, options.steps)
    for _ in range(options.steps):
        loss = way.step(*next(source))
        dist.all_reduce(loss)
        losses.append(round(float(loss) / dist.get_world_size(), 4))
        decay.step()
    x, y = digits(options.data, "t10k")
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    with torch.no_grad():
        found = [way.ddp.module(part).argmax(1) for part in x[mine].split(64)]
    right = (torch.cat(found) == y[mine]).float().sum()
    dist.all_reduce(right)
    return {"losses": losses, "accuracy": 100 * float(right) / len(y)}


class Bucket(nn.Module):
    """Parameters whose gradients are one bucket of a thousand floats, and no work."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1000))

    def forward(self, x):
        return (self.weight * x).sum()


def measure_hook(options):
    """Median microseconds of backward() through DDP without a hook's work (it hands the bucket
    back), with Shoal's, and of Shoal's all-reduce of as many floats called by itself."""
    values = torch.ones(1000)
    noop = nn.parallel.DistributedDataParallel(Bucket())
    noop.register_comm_hook(None, hand_back)
    ours = shoal.ddp(nn.parallel.DistributedDataParallel(Bucket()))
    found = {"noop": [], "hook": [], "call": []}
    for _ in range(options.steps):
        for name, module in (("noop", noop), ("hook", ours)):
            loss = module(values)
            begin = time.perf_counter()
            loss.backward()
            found[name].append((time.perf_counter() - begin) * 1e6)
        begin = time.perf_counter()
        shoal.allreduce(values)
        found["call"].append((time.perf_counter() - begin) * 1e6)
    return {name: statistics.median(times) for name, times in found.items()}


def hand_back(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    del state
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


MODES = {"time": measure_time, "train": train, "hook": measure_hook}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("folder")
    parser.add_argument("--data")
    parser.add_argument("--way", action="append")
    parser.add_argument("--batch", type=int, default=4, help="samples per rank and step")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    result = MODES[options.mode](options)
    if dist.get_rank() == 0:
        with open(os.path.join(options.folder, "result.json"), "w", encoding="utf-8") as file:
            json.dump(result, file)
    dist.barrier()


if __name__ == "__main__":
    main()
