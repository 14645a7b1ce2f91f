#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network of shoal.convert under shoal.ddp. A file of its own: ranks are forked, and PyTorch from
2.6 on refuses backward() in a child whose parent has called it, as circulant_test does."""

import unittest

import launch

launch.needs("numpy")
torch = launch.needs("torch")

import shoal  # noqa: E402


def converted():
    torch.manual_seed(6)
    nn = torch.nn
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.Tanh(), nn.Conv2d(8, 8, 3), nn.Tanh(), nn.Flatten(),
        nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 4),
    )  # fmt: skip
    return shoal.convert(net, block=8, conv=4)


def under_ddp():
    """Gradients of a converted network's mean over ranks are those of one process with all."""
    rank, ranks = shoal.rank(), shoal.world_size()
    for codec, tolerance in (("identity", 1e-6), ("fp16", 1e-3)):
        ddp, whole = shoal.ddp(converted(), codec=codec), converted()
        assert sum(type(m).__name__.startswith("Circulant") for m in whole) == 2
        x, y = torch.randn(ranks, 5, 3, 6, 6), torch.randint(0, 4, (ranks, 5))
        for net, points, labels in ((ddp, x[rank], y[rank]), (whole, x.flatten(0, 1), y.flatten())):
            torch.nn.functional.cross_entropy(net(points), labels).backward()
        for mine, its in zip(ddp.parameters(), whole.parameters()):
            assert torch.allclose(mine.grad, its.grad, atol=tolerance), (codec, mine.shape)


class ConvertedRanksTest(launch.RanksTest):
    def test_a_converted_network_under_ddp(self):
        self.assert_ranks(under_ddp)


if __name__ == "__main__":
    unittest.main()
