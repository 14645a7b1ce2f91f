# SPDX-License-Identifier: Apache-2.0
"""Codec powersgd beside PyTorch's powerSGD_hook: both get the same gradients on every rank and hand
out the same approximations, for 20 steps with warm start and error feedback.

The two draw their first Q each in its own way. A first gradient whose sum has just the rank asked
for makes that irrelevant: whatever Q was, both keep the span of that sum's rows, and owe nothing.
From there on what counts of Q is its span, of residuals their sum over the ranks (ours: what a rank
did not say; PyTorch's: what the mean lacks of what it said)."""

import unittest

import launch

torch = launch.needs("torch")

import torch.distributed as dist  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook  # noqa: E402

import shoal  # noqa: E402

STEPS, SEED = 20, 20260101
SHAPES = ((64, 48), (40, 120), (17,))


class Bucket:
    """What the hook reads of DDP's bucket."""

    def __init__(self, flat):
        self.flat = flat

    def buffer(self):
        return self.flat

    def gradients(self):
        parts = self.flat.split([torch.Size(shape).numel() for shape in SHAPES])
        return [part.view(shape) for part, shape in zip(parts, SHAPES)]

    def index(self):
        return 0

    def is_last(self):
        return True


def tensors():
    rows, offset = [], 0
    for key, shape in enumerate(SHAPES):
        count = torch.Size(shape).numel()
        size = shape if len(shape) == 2 else (count, 1)
        rows.append(shoal.Tensor(key + 1, offset, count, rows=size[0], cols=size[1]))
        offset += count
    return rows


def matrix(shape, step, rank, low):
    """One rank's gradient of a matrix: `low` directions that stay and whose weights vary, and noise
    a tenth as large, which is what a residual collects. Without such a gap the largest directions
    are as good as any, and rounding chooses. Step 0: the directions alone."""
    keep = torch.Generator().manual_seed(SEED + shape[0])
    left = torch.linalg.qr(torch.randn((shape[0], low), generator=keep))[0]
    right = torch.linalg.qr(torch.randn((shape[1], low), generator=keep))[0]
    draw = torch.Generator().manual_seed(SEED + 1000 * step + rank)
    core = torch.diag(torch.linspace(6, 3, low)) + 0.3 * torch.randn((low, low), generator=draw)
    noise = torch.randn(shape, generator=draw)
    return left @ core @ right.T + (0.02 * noise if step > 0 else 0)


def gradient(step, rank, low):
    draw = torch.Generator().manual_seed(SEED - 1000 * step - rank)
    parts = [matrix(shape, step, rank, low) if len(shape) == 2
             else torch.randn(shape, generator=draw) for shape in SHAPES]
    return torch.cat([part.flatten() for part in parts])


def compare(low):
    comm, rank, ranks = shoal.comm(), shoal.rank(), shoal.world_size()
    state = powerSGD_hook.PowerSGDState(
        None, low, start_powerSGD_iter=2, min_compression_rate=1)
    state.iter = 2  # its plain steps are over
    worst = 0
    for step in range(STEPS + 1):
        mine = gradient(step, rank, low)
        theirs = powerSGD_hook.powerSGD_hook(state, Bucket(mine.clone())).wait()
        comm.allreduce(mine, codec=f"powersgd:rank={low}", tensors=tensors())
        mine /= ranks
        whole = sum(gradient(step, r, low) for r in range(ranks)) / ranks
        if step > 0:  # it is lossy, or there is nothing to compare
            assert (mine - whole).norm() > 0.01 * whole.norm(), step
        worst = max(worst, float((mine - theirs).norm() / theirs.norm()))
    return worst


def approximations():
    dist.init_process_group("gloo")
    for low in (1, 2, 4):
        worst = compare(low)
        launch.say(f"rank {low}: off by {worst:.2e} at most")
        assert worst <= 1e-5, (low, worst)


class PowerSgdTest(launch.RanksTest):
    def test_the_approximations_are_pytorchs(self):
        print("seed", SEED)
        print(self.assert_ranks(approximations, ranks=2))


if __name__ == "__main__":
    unittest.main()
