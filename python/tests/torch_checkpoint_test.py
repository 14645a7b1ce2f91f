#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint over our group: training on 4 ranks goes on with 2 and then with 3,
each from the files of the one before, with shoal.ddp and with shoal.fsdp. The end is that of one
process that was never stopped and has every whole batch. (What PyTorch 1.13 had in its place
cannot be imported under Python 3.11.)"""

import functools
import os
import shutil
import sys
import tempfile
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
import torch.distributed.checkpoint  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402

LIVES, STEPS, BATCH = (4, 2, 3), 4, 12


def network():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(10, 33), torch.nn.Tanh(), torch.nn.Linear(33, 3))


def optimizer_of(net):
    return torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)


def batch(step):
    g = torch.Generator().manual_seed(step)
    return torch.randn(BATCH, 10, generator=g), torch.randint(0, 3, (BATCH,), generator=g)


def train(net, optimizer, first, rank=0, ranks=1):
    part = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
    for step in range(first, first + STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x[part]), y[part]).backward()
        optimizer.step()


def state_of(net, optimizer):
    """What is saved; loading fills its tensors. `net`: without DistributedDataParallel around."""
    names = {p: name for name, p in net.named_parameters()}
    for p in names:  # before the first step there are none to fill
        optimizer.state[p].setdefault("momentum_buffer", torch.zeros_like(p.detach()))
    state = {f"net.{name}": p.detach() for p, name in names.items()}
    for p, name in names.items():
        state[f"momentum.{name}"] = optimizer.state[p]["momentum_buffer"]
    return state


def full(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


@functools.lru_cache(maxsize=None)
def never_stopped(lives):
    net = network()
    optimizer = optimizer_of(net)
    for life in range(lives):
        train(net, optimizer, life * STEPS)
    return state_of(net, optimizer)


def live(made, life, top):
    """One life: made(net) is the module that trains, and the one whose state is saved."""
    model, inner = made(network())
    optimizer = optimizer_of(inner)
    state = state_of(inner, optimizer)
    if life:
        for tensor in state.values():
            tensor.fill_(float("nan"))
        torch.distributed.checkpoint.load(state, checkpoint_id=f"{top}/{life - 1}")
        for name, tensor in never_stopped(life).items():
            assert torch.allclose(full(state[name]), tensor, atol=2e-6), f"{name} as loaded"
    train(model, optimizer, life * STEPS, dist.get_rank(), dist.get_world_size())
    state = state_of(inner, optimizer)
    for name, tensor in never_stopped(life + 1).items():
        apart = float((full(state[name]) - tensor).abs().max())
        assert apart < 5e-6, f"{name}: {apart:.2g} from that of one process"
    torch.distributed.checkpoint.save(state, checkpoint_id=f"{top}/{life}")


def by_ddp(net):
    return shoal.ddp(net, codec="identity"), net


def by_fsdp(net):
    """Shards on all ranks, with replicas where their number is even: 2 x 2, 2 x 1 and 1 x 3."""
    dist.init_process_group("shoal")
    ranks = dist.get_world_size()
    replicas = 1 if ranks % 2 else 2
    mesh = init_device_mesh("cpu", (replicas, ranks // replicas), mesh_dim_names=("r", "s"))
    for layer in (net[0], net[2], net):
        fully_shard(layer, mesh=mesh["s"])
    shoal.fsdp(net, replicas=mesh["r"].mesh.tolist())
    return net, net


class TorchCheckpointTest(launch.RanksTest):
    def lives(self, made):
        top = tempfile.mkdtemp(prefix="shoal-dcp-")
        try:
            for life, ranks in enumerate(LIVES):
                os.makedirs(f"{top}/{life}")
                self.assert_ranks(lambda life=life: live(made, life, top), ranks)
        finally:
            shutil.rmtree(top)

    def test_ddp(self):
        self.lives(by_ddp)

    def test_fsdp(self):
        self.lives(by_fsdp)


if __name__ == "__main__":
    unittest.main()
