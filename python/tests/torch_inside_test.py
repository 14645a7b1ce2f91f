#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A group of PyTorch's inside a host, Shoal between hosts: two "hosts" of two ranks, with Gloo
inside, as there are no GPUs. Gradients are means over the whole batch, replicas stay equal, only
leaders speak to other hosts, a lost rank ends backward() everywhere."""

import contextlib
import os
import signal
import unittest
import unittest.mock

import launch

launch.needs("numpy")
torch = launch.needs("torch")

import torch.distributed as dist  # noqa: E402

import shoal  # noqa: E402


def network():
    torch.manual_seed(shoal.rank())
    return torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4))


def batch(step):
    g = torch.Generator().manual_seed(step)
    return torch.randn(4, 8, 20, generator=g), torch.randint(0, 4, (4, 8), generator=g)


def loss_of(net, x, y):
    return torch.nn.functional.cross_entropy(net(x).float(), y)


def on_hosts(layout):
    """Which host this rank is on, before anything is asked."""
    os.environ["GROUP_RANK"] = str(layout[int(os.environ["RANK"])])


dist._DEFAULT_FIRST_BUCKET_BYTES = 1000  # else one of 1 MiB takes it all


def train(codec, dtype=torch.float32, compare=True):
    net, whole = network().to(dtype), network().to(dtype)
    ddp = shoal.ddp(net, codec=codec, inside="gloo", bucket_cap_mb=0.0009)
    rank, optimizer = shoal.rank(), torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(4):
        x, y = batch(step)
        x = x.to(dtype)
        whole.load_state_dict(net.state_dict())
        optimizer.zero_grad()
        whole.zero_grad()
        loss_of(ddp, x[rank], y[rank]).backward()
        if compare:
            loss_of(whole, x.flatten(0, 1), y.flatten()).backward()
            for mine, its in zip(net.parameters(), whole.parameters()):
                assert torch.allclose(mine.grad, its.grad, atol=1e-6), step
        optimizer.step()
    everyone = [None] * shoal.world_size()
    dist.all_gather_object(everyone, [p.detach().clone() for p in net.parameters()])
    for other in everyone:
        assert all(torch.equal(a, b) for a, b in zip(everyone[0], other))
    return ddp


def in_order(ddp):
    """What a step asks of the group inside: NCCL wants one order on all its ranks."""
    calls, (x, y) = [], batch(2)
    with contextlib.ExitStack() as stack:
        for name in ("reduce", "broadcast"):
            real = getattr(dist, name)

            def noted(*arguments, name=name, real=real, **options):
                calls.append(name)
                return real(*arguments, **options)

            stack.enter_context(unittest.mock.patch.object(dist, name, noted))
        loss_of(ddp, x[shoal.rank()], y[shoal.rank()]).backward()
    return calls


def two_hosts():
    on_hosts((0, 0, 1, 1))
    ddp = train(None)
    host = ddp.shoal.host
    assert host.leaders == [0, 2] and host.members == [[0, 1], [2, 3]][shoal.rank() // 2]
    for codec in ("eden:bits=2,ef", "terngrad"):
        train(codec, compare=False)
    calls = in_order(ddp)
    assert calls == ["reduce"] * (len(calls) // 2) + ["broadcast"] * (len(calls) // 2), calls
    assert len(calls) >= 4, calls  # several buckets
    others = [r for r in range(4) if r != shoal.rank()]
    before = [shoal.comm().peer_stats(r)["sent_payload_bytes"] for r in others]
    x, y = batch(1)
    for _ in range(20):
        loss_of(ddp, x[shoal.rank()], y[shoal.rank()]).backward()
    gradients = 20 * sum(p.numel() * 4 for p in ddp.parameters())
    for peer, count in zip(others, before):
        sent = shoal.comm().peer_stats(peer)["sent_payload_bytes"] - count
        assert (sent > gradients / 2) == ({peer, shoal.rank()} == {0, 2}), (peer, sent, gradients)


def interleaved():
    """Hosts whose ranks are not next to each other, one of them with a rank alone."""
    on_hosts(("b", "a", "b", "b"))
    assert train(None).shoal.host.leaders == [0, 1]


def lost():
    on_hosts((0, 0, 1, 1))
    ddp = train(None)
    x, y = batch(9)
    victim = int(os.environ["SHOAL_VICTIM"])
    if shoal.rank() == victim:
        ddp.module[0].weight.register_hook(lambda g: os.kill(os.getpid(), signal.SIGKILL))
    try:
        loss_of(ddp, x[shoal.rank()], y[shoal.rank()]).backward()
    except RuntimeError as error:
        launch.say(f"rank {shoal.rank()} ended: {error}")


def refused():
    for options, kind in (
        ({"inside": "nccl"}, shoal.NotSupported),
        ({"inside": "gloo", "on_loss": "reform"}, ValueError),
    ):
        try:
            shoal.ddp(network(), **options)
        except kind as error:
            assert "inside" in str(error)
            launch.say("refused")


class TorchInsideTest(launch.RanksTest):
    def test_two_hosts_of_two_ranks(self):
        self.assert_ranks(two_hosts, ranks=4)

    def test_any_layout(self):
        self.assert_ranks(interleaved, ranks=4)

    def test_a_lost_rank_ends_backward_everywhere(self):
        for victim in (1, 2):
            os.environ["SHOAL_VICTIM"] = str(victim)
            statuses, printed = launch.run(lost, 4, limit_s=60)
            self.assertEqual(3, printed.count("ended: "), printed)
            self.assertEqual(-signal.SIGKILL, statuses[victim])
        said = next(line for line in printed.split("\n") if line.startswith("rank 1 ended"))
        self.assertRegex(said, "rank 0, which leads this host, could not|rank 2")

    def test_what_cannot_be_is_refused(self):
        self.assertEqual(2, self.assert_ranks(refused, ranks=1).count("refused"))


if __name__ == "__main__":
    unittest.main()
