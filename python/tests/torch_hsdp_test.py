#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hybrid sharding: FSDP2 inside two "hosts" of two ranks, over Gloo or over our group, and Shoal
between their replicas. Gradients beside plain FSDP2, FSDP2's own hybrid sharding and
DistributedDataParallel, all three over Gloo, in the same ranks and steps."""

import os
import sys
import unittest

import launch

launch.needs("numpy")
torch = launch.needs("torch")

import torch.distributed as dist  # noqa: E402

import shoal  # noqa: E402

if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 7):
    print(f"skipped: PyTorch {torch.__version__}; FSDP2 has hooks in versions behind 2.6")
    sys.exit(77)

# Before ranks are forked: it takes seconds.
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402

RANKS = 4


def network():
    torch.manual_seed(5)
    return torch.nn.Sequential(
        torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 50, bias=False),
        torch.nn.Tanh(), torch.nn.Linear(50, 3),
    )  # fmt: skip


def batch(step, size=16):
    """Of each rank: points, and which of three of their entries is largest."""
    g = torch.Generator().manual_seed(step)
    x = torch.randn(RANKS, size, 20, generator=g)
    return x, x[:, :, :3].argmax(2)


def mesh():
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "shard"))


def sharded(of=None, policy=None):
    net = network()
    for layer in (net[0], net[2], net[4], net):
        fully_shard(layer, mesh=of, **({"mp_policy": policy} if policy else {}))
    return net


def between(codec=None, policy=None):
    """This project's hybrid: FSDP knows of the shards alone."""
    net, grid = sharded(mesh()["shard"], policy), mesh()
    return shoal.fsdp(net, replicas=grid["replica"].mesh.tolist(), codec=codec)


def loss_of(net, step):
    x, y = batch(step)
    return torch.nn.functional.cross_entropy(net(x[dist.get_rank()]), y[dist.get_rank()])


def full(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def gradients(net, step):
    net.zero_grad()
    loss_of(net, step).backward()
    return [full(p.grad).float() for p in net.parameters()]


def far(found, wanted):
    """||found - wanted|| / ||wanted|| over all gradients."""
    apart = sum(float((a - b).pow(2).sum()) for a, b in zip(found, wanted))
    return (apart / sum(float(b.pow(2).sum()) for b in wanted)) ** 0.5


def over_gloo():
    """Gloo is the process group; Shoal joins beside it."""
    dist.init_process_group("gloo")
    shoal.init()


def beside_the_others():
    ddp = torch.nn.parallel.DistributedDataParallel(network())
    plain, hybrid, own = sharded(), sharded(mesh()), between()
    for step in range(3):
        wanted = gradients(ddp, step)
        for name, net in (("FSDP2", plain), ("its hybrid", hybrid), ("ours", own)):
            apart = far(gradients(net, step), wanted)
            assert apart < 1e-6, f"{name}, step {step}: {apart:.2g} from DDP's"


def gloo_inside():
    over_gloo()
    beside_the_others()
    assert dist.get_backend() == "gloo"


def shoal_inside():
    dist.init_process_group("shoal")
    own, ddp = between(), torch.nn.parallel.DistributedDataParallel(network())
    for step in range(3):
        assert far(gradients(own, step), gradients(ddp, step)) < 1e-6


# How far a coded gradient may be: float16 has eleven bits; eden leaves about 0.13 (two bits) or
# 0.01 (four) of the square of what it codes, which is done twice, on the way there and back.
CODECS = {"fp16": 1e-3, "eden:bits=4": 0.15, "eden:bits=2": 0.5}


def coded():
    over_gloo()
    plain = sharded()
    for codec, bound in CODECS.items():
        own = between(codec)
        found = [far(gradients(own, step), gradients(plain, step)) for step in range(3)]
        assert all(1e-7 < apart < bound for apart in found), (codec, found)
        launch.say(f"{codec}: {max(found):.2g}")


def losses(net, steps=80):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(net, step).backward()
        optimizer.step()
    with torch.no_grad():
        return sum(float(loss_of(net, 1000 + i)) for i in range(10)) / 10


def trained():
    """Two bits with error feedback reach what float32 reaches, and replicas stay equal."""
    over_gloo()
    plain, own = sharded(), between("eden:bits=2,ef")
    before, there, here = losses(own, 0), losses(plain), losses(own)
    launch.say(f"loss {before:.3f}, plain FSDP2 {there:.4f}, ours {here:.4f}")
    assert here < 0.3 * before and here < 1.25 * there + 0.02, (before, there, here)
    mine = torch.cat([full(p).detach().reshape(-1) for p in own.parameters()])
    theirs = [torch.empty_like(mine) for _ in range(RANKS)]
    dist.all_gather(theirs, mine)
    assert all(torch.equal(mine, other) for other in theirs)


def accumulated():
    """Three backward passes and one exchange, by either of FSDP's two switches; the second pass of
    all is without accumulation, so that nothing of the first is left."""
    over_gloo()
    for switch in ("set_requires_gradient_sync", "set_requires_all_reduce"):
        ddp, own = torch.nn.parallel.DistributedDataParallel(network()), between()
        sent = []
        start = own[0]._get_fsdp_state()  # FSDP's hook of the first layer
        hook = (getattr(start, "_fsdp_param_groups", None) or [start._fsdp_param_group])[0]
        hook = hook._all_reduce_hook
        begin = hook._start
        hook._start = lambda flat: (sent.append(1), begin(flat))[1]  # noqa: B023
        for parts in ((0, 1, 2), (3,)):
            ddp.zero_grad()
            own.zero_grad()
            for part in parts:
                getattr(own, switch)(part == parts[-1])
                if part == parts[-1]:
                    loss_of(ddp, part).backward()
                else:
                    with ddp.no_sync():
                        loss_of(ddp, part).backward()
                loss_of(own, part).backward()
            found = [full(p.grad) for p in own.parameters()]
            assert far(found, [p.grad for p in ddp.parameters()]) < 1e-6, (switch, parts)
        assert len(sent) == 2, (switch, sent)


def half():
    """Parameters gathered in bfloat16; gradients reduced in float32, then in bfloat16."""
    over_gloo()
    for reduce, bound in ((torch.float32, 1e-6), (torch.bfloat16, 1e-2)):
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce)
        own, hybrid = between(policy=policy), sharded(mesh(), policy)
        apart = far(gradients(own, 1), gradients(hybrid, 1))
        assert apart < bound, (reduce, apart)


def refused():
    """A mesh whose replicas FSDP knows of: it would average twice."""
    over_gloo()
    rank = dist.get_rank()
    try:
        shoal.fsdp(sharded(mesh()), replicas=[rank % 2, rank % 2 + 2])
    except ValueError as error:
        assert "dimension of shards alone" in str(error), error
    else:
        raise AssertionError("it was not refused")


def lost():
    """A rank is gone behind its second step: backward() of its replica names it, and the rank that
    shares its host's shards hears it of Gloo; rank 0 hears of whoever of them ends first."""
    over_gloo()
    own = between("eden:bits=4,ef")
    for step in range(2):
        gradients(own, step)
    if dist.get_rank() == 3:
        os._exit(9)
    try:
        gradients(own, 2)
    except Exception as error:
        if dist.get_rank() == 1:
            assert isinstance(error, shoal.PeerLost) and error.rank == 3, error
    else:
        raise AssertionError("its gradients are whole without it")


class TorchHsdpTest(launch.RanksTest):
    def ranks(self, main):
        return self.assert_ranks(main, RANKS)

    def test_numbers_over_gloo_inside(self):
        self.ranks(gloo_inside)

    def test_numbers_over_our_group_inside(self):
        self.ranks(shoal_inside)

    def test_codecs(self):
        print(self.ranks(coded), flush=True)

    def test_training(self):
        print(self.ranks(trained), flush=True)

    def test_accumulation(self):
        self.ranks(accumulated)

    def test_half_types(self):
        self.ranks(half)

    def test_a_lost_replica_is_named(self):
        statuses, printed = launch.run(lost, RANKS, limit_s=100)
        self.assertEqual([0, 0, 0, 9], statuses, printed)

    def test_a_mesh_that_averages_itself(self):
        self.ranks(refused)


if __name__ == "__main__":
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    unittest.main()
