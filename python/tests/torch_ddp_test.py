#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel through Shoal's hook: gradients are the mean over the whole batch,
replicas stay equal, a lost rank ends backward() with its name."""

import os
import signal
import time
import unittest

import launch

launch.needs("numpy")
torch = launch.needs("torch")

import torch.distributed as dist  # noqa: E402

import shoal  # noqa: E402

STEPS, BATCH, WORDS = 4, 12, 50


class Net(torch.nn.Module):
    """An embedding with sparse gradients, matrices and biases; several buckets."""

    def __init__(self, sparse):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, 8, sparse=sparse)
        self.inner = torch.nn.Linear(8, 64)
        self.outer = torch.nn.Linear(64, 4)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(self.words(x).mean(1))))


def batch(step, ranks):
    g = torch.Generator().manual_seed(step)
    x = torch.randint(0, WORDS, (ranks, BATCH, 5), generator=g)
    return x, torch.randint(0, 4, (ranks, BATCH), generator=g)


def loss_of(net, x, y):
    return torch.nn.functional.cross_entropy(net(x), y)


def dense(p):
    return p.grad.to_dense() if p.grad.is_sparse else p.grad


def train(codec, sparse, dtype=torch.float32, steps=STEPS, compare=True):
    """Steps beside one process that has the whole batch; the trained model."""
    torch.manual_seed(shoal.rank())
    net, whole = Net(sparse).to(dtype), Net(sparse).to(dtype)
    ddp = shoal.ddp(net, codec=codec, bucket_cap_mb=0.002)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    rank, ranks = shoal.rank(), shoal.world_size()
    for step in range(steps):
        x, y = batch(step, ranks)
        whole.load_state_dict(net.state_dict())
        optimizer.zero_grad()
        whole.zero_grad()
        loss_of(ddp, x[rank], y[rank]).backward()
        if compare:
            loss_of(whole, x.flatten(0, 1), y.flatten()).backward()
            for mine, its in zip(net.parameters(), whole.parameters()):
                assert torch.allclose(dense(mine), dense(its), atol=1e-6), step
        optimizer.step()
    everyone = [None] * ranks
    dist.all_gather_object(everyone, [p.detach().clone() for p in net.parameters()])
    for other in everyone:
        assert all(torch.equal(a, b) for a, b in zip(everyone[0], other))
    return ddp


def plain():
    train(None, sparse=False)
    train("identity", sparse=True)
    train(None, sparse=False, dtype=torch.float64)


def coded():
    for codec in ("eden:bits=2,ef", "terngrad", "fp16", "powersgd:rank=2", "blocks:block=32,k=0.2"):
        train(codec, sparse=False, compare=False)


def existing_module():
    """A DistributedDataParallel made by the user, over another backend."""
    dist.init_process_group("gloo")
    ddp = torch.nn.parallel.DistributedDataParallel(Net(sparse=False))
    assert shoal.ddp(ddp) is ddp and shoal.world_size() == dist.get_world_size()
    x, y = batch(1, shoal.world_size())
    loss_of(ddp, x[shoal.rank()], y[shoal.rank()]).backward()
    try:
        shoal.ddp(ddp, bucket_cap_mb=1)
    except TypeError as error:
        assert "where it was made" in str(error)


def killed():
    ddp = train(None, sparse=False, steps=2)
    x, y = batch(9, shoal.world_size())
    if shoal.rank() == 1:
        ddp.module.inner.weight.register_hook(lambda g: os.kill(os.getpid(), signal.SIGKILL))
    begin = time.monotonic()
    for _ in range(2):  # the second shows that DDP is not wedged
        try:
            loss_of(ddp, x[shoal.rank()], y[shoal.rank()]).backward()
        except RuntimeError as error:
            assert "rank 1" in str(error), error
            assert isinstance(ddp.shoal.error, shoal.PeerLost) and ddp.shoal.error.rank == 1
            launch.say("named after %.3f s" % (time.monotonic() - begin))


class TorchDdpTest(launch.RanksTest):
    def test_gradients_are_means(self):
        self.assert_ranks(plain)

    def test_coded_replicas_stay_equal(self):
        self.assert_ranks(coded, ranks=2)

    def test_a_module_that_the_user_made(self):
        self.assert_ranks(existing_module, ranks=2)

    def test_a_rank_that_dies_in_backward_is_named_twice(self):
        statuses, printed = launch.run(killed)
        self.assertEqual([0, -signal.SIGKILL, 0], statuses, printed)
        self.assertEqual(4, printed.count("named after"), printed)


if __name__ == "__main__":
    unittest.main()
