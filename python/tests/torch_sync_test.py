#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Protocols behind optimizer.step(): all_reduce is one process with the whole batch, every protocol
learns and ends with equal replicas, a lost rank is named."""

import os
import signal
import unittest

import launch

launch.needs("numpy")
torch = launch.needs("torch")

import shoal  # noqa: E402

IN, CLASSES, BATCH = 10, 3, 16
PROTOCOLS = (
    "local_sgd:every=4",
    "diloco:every=4",
    "noloco:every=4",
    "ad_psgd",
    "d_psgd",
    "hop",
    "hop:backup=1",
    "ripples:smart",
    "param_server",
)


def problem(step, rank):
    g = torch.Generator().manual_seed(1000 * rank + step)
    x = torch.randn(BATCH, IN, generator=g)
    weights = torch.randn(IN, CLASSES, generator=torch.Generator().manual_seed(7))
    return x, (x @ weights).argmax(1)


def network():
    return torch.nn.Sequential(
        torch.nn.Linear(IN, 16), torch.nn.Tanh(), torch.nn.Linear(16, CLASSES)
    )


def loss_of(net, x, y):
    return torch.nn.functional.cross_entropy(net(x), y)


def all_reduce():
    torch.manual_seed(shoal.rank())
    net = network()
    optimizer = shoal.wrap(torch.optim.Adam(net.parameters(), lr=0.01))
    whole = network()
    whole.load_state_dict(net.state_dict())
    alone = torch.optim.Adam(whole.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    other = torch.optim.lr_scheduler.StepLR(alone, 2, 0.5)
    ranks = range(shoal.world_size())
    for step in range(6):
        optimizer.zero_grad()
        loss_of(net, *problem(step, shoal.rank())).backward()
        optimizer.step()
        alone.zero_grad()
        sum(loss_of(whole, *problem(step, r)) / len(ranks) for r in ranks).backward()
        alone.step()
        schedule.step()
        other.step()
        for mine, its in zip(net.parameters(), whole.parameters()):
            assert torch.allclose(mine, its, atol=1e-5), (step, (mine - its).abs().max())
    assert optimizer.shoal.iteration == 6 and optimizer.shoal.stats()["operations"] >= 1
    assert isinstance(optimizer, torch.optim.Adam) and optimizer.state_dict()["state"]
    optimizer.finish()


def every_protocol():
    for sync in PROTOCOLS:
        torch.manual_seed(5)
        net = network()
        optimizer = shoal.wrap(torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.5), sync=sync)
        before = float(loss_of(net, *problem(999, 0)))
        while optimizer.shoal.iteration < 40 and not optimizer.shoal.stopped:
            optimizer.zero_grad()
            loss_of(net, *problem(optimizer.shoal.iteration, shoal.rank())).backward()
            optimizer.step()
        optimizer.finish()
        after = float(loss_of(net, *problem(999, 0)))
        assert after < 0.8 * before, (sync, before, after)
        mine = torch.cat([p.detach().view(-1) for p in net.parameters()])
        roots = shoal.broadcast(mine.clone())
        assert torch.equal(mine, roots), sync
    shoal.barrier()  # rank 0 is done with a broadcast before the last has entered it


def closures_and_none_gradients():
    net = network()
    optimizer = shoal.wrap(torch.optim.SGD(net.parameters(), lr=0.1))

    def closure():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(net, *problem(0, 0))
        loss.backward()
        return loss

    first = float(optimizer.step(closure))
    for p in net.parameters():
        p.grad = None  # as newer versions of PyTorch do by default
    loss_of(net, *problem(0, 0)).backward()
    optimizer.step()
    assert float(loss_of(net, *problem(0, 0))) < first
    shoal.close()  # ends the protocol, too
    try:
        optimizer.step()
    except ValueError as error:
        assert "ended" in str(error)


def killed():
    net = network()
    optimizer = shoal.wrap(torch.optim.SGD(net.parameters(), lr=0.1))
    for step in range(50):
        if step == 3 and shoal.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        loss_of(net, *problem(step, shoal.rank())).backward()
        try:
            optimizer.step()
        except shoal.PeerLost as error:
            assert error.rank == 1, (error.rank, error.host, error.operation)
            launch.say("named")
            return


class TorchSyncTest(launch.RanksTest):
    def test_all_reduce_is_one_process_with_the_whole_batch(self):
        self.assert_ranks(all_reduce)

    def test_every_protocol_learns_and_ends_with_equal_replicas(self):
        self.assert_ranks(every_protocol, ranks=4)

    def test_closures_and_gradients_set_to_none(self):
        self.assert_ranks(closures_and_none_gradients, ranks=2)

    def test_a_lost_rank_is_named(self):
        statuses, printed = launch.run(killed)
        self.assertEqual([0, -signal.SIGKILL, 0], statuses, printed)
        self.assertEqual(2, printed.count("named"), printed)

    def test_what_cannot_be_wrapped(self):
        net = network().double()
        with self.assertRaisesRegex(TypeError, "float64"):
            shoal.wrap(torch.optim.SGD(net.parameters(), lr=0.1))
        values = list(network().parameters())
        for optimizer in (torch.optim.SGD(values, 0.1, momentum=0.9), torch.optim.Adam(values)):
            with self.assertRaisesRegex(ValueError, "demo.*would add another"):
                shoal.wrap(optimizer, codec="demo")
        shoal.close()


if __name__ == "__main__":
    unittest.main()
