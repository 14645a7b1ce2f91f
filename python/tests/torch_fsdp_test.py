#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The FSDP2 hook against a stand-in, as Debian's PyTorch has no FSDP2: an object with
set_all_reduce_hook that calls its hook as FSDP does, behind the reduce-scatter."""

import unittest

import launch

launch.needs("numpy")
torch = launch.needs("torch")

import shoal  # noqa: E402


class StandIn(torch.nn.Linear):
    """What of FSDPModule the hook sees."""

    def set_all_reduce_hook(self, hook, *, stream=None):
        assert stream is None
        self.hook = hook

    def reduce(self, shard):
        assert self.hook(shard) is None  # in place
        return shard


def replicas():
    rank = shoal.rank()
    net = torch.nn.Sequential(StandIn(2, 2), StandIn(2, 2))
    group = [rank % 2, rank % 2 + 2]  # of 4 ranks, two shards with two replicas each
    assert shoal.fsdp(net, replicas=group) is net
    for dtype in (torch.float32, torch.bfloat16):
        for layer in net:
            shard = layer.reduce(torch.full((3, 2), float(rank), dtype=dtype))
            assert (shard == sum(group) / 2).all() and shard.dtype == dtype
    shoal.fsdp(net, codec="fp16")
    assert (net[1].reduce(torch.full((5,), float(rank))) == 1.5).all()
    try:
        shoal.fsdp(net, replicas=[(rank + 1) % 4])
    except ValueError as error:
        assert "not among the replicas" in str(error)


class TorchFsdpTest(launch.RanksTest):
    def test_replicas_are_averaged(self):
        self.assert_ranks(replicas, ranks=4)

    def test_an_older_pytorch_is_told(self):
        with self.assertRaisesRegex(shoal.NotSupported, "behind 2.6"):
            shoal.fsdp(torch.nn.Linear(2, 2))


if __name__ == "__main__":
    unittest.main()
