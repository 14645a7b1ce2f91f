#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's users do around shoal.ddp: accumulation, autocast, checkpoints of activations and
of training, compile, uneven inputs, mp.spawn, torchrun, real FSDP2. Gradients are compared with one
process that has the whole batch. What a version of PyTorch lacks is skipped, and counted."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import launch

launch.needs("numpy")
torch = launch.needs("torch")

import torch.distributed as dist  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import shoal  # noqa: E402
from shoal.launching import reserved_port  # noqa: E402

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.Tanh(), torch.nn.Linear(32, 3))


def batch(step, ranks=None):
    g = torch.Generator().manual_seed(step)
    ranks = ranks or shoal.world_size()
    return torch.randn(ranks, 8, 12, generator=g), torch.randint(0, 3, (ranks, 8), generator=g)


def loss_of(net, x, y):
    return torch.nn.functional.cross_entropy(net(x), y)


def compare(ddp, whole, tolerance=1e-6):
    for mine, its in zip(ddp.parameters(), whole.parameters()):
        assert torch.allclose(mine.grad, its.grad, atol=tolerance)


def steps(ddp, run=loss_of, count=3, tolerance=1e-6):
    """Gradients of each step beside those of the whole batch."""
    whole, rank = network(), shoal.rank()
    for step in range(count):
        x, y = batch(step)
        ddp.zero_grad()
        whole.zero_grad()
        run(ddp, x[rank], y[rank]).backward()
        loss_of(whole, x.flatten(0, 1), y.flatten()).backward()
        compare(ddp, whole, tolerance)


def accumulation(codec=None, tolerance=1e-6):
    ddp, whole, rank = shoal.ddp(network(), codec=codec), network(), shoal.rank()
    for part in range(3):
        x, y = batch(part)
        if part < 2:
            with ddp.no_sync():
                loss_of(ddp, x[rank], y[rank]).backward()
        else:
            loss_of(ddp, x[rank], y[rank]).backward()
        loss_of(whole, x.flatten(0, 1), y.flatten()).backward()
    compare(ddp, whole, tolerance)


def autocast():
    ddp, alone, rank = shoal.ddp(network()), network(), shoal.rank()
    x, y = batch(1)
    total = [torch.zeros_like(p) for p in alone.parameters()]
    for r in range(shoal.world_size()):
        alone.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(alone, x[r], y[r])
        loss.backward()
        for t, p in zip(total, alone.parameters()):
            t += p.grad / shoal.world_size()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_of(ddp, x[rank], y[rank])
    loss.backward()
    for t, p in zip(total, ddp.parameters()):
        assert torch.allclose(t, p.grad, atol=1e-6)


class Checkpointed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, x):
        return self.net[2](checkpoint(self.net[:2], x, use_reentrant=False))


def around():
    steps(shoal.ddp(network(), static_graph=True))
    steps(shoal.ddp(Checkpointed()))
    ddp = torch.nn.parallel.DistributedDataParallel(network())
    ddp.register_comm_hook(*shoal.comm_hook(ddp, codec="identity"))
    steps(ddp)


def normed():
    """With buffers, so that the group has a broadcast in each step."""
    return torch.nn.Sequential(network(), torch.nn.BatchNorm1d(3, affine=False, momentum=0.5))


def compiled():
    """The module, then what is around it, with Shoal's hook and with the group alone; in the last
    the graph has the group's broadcast between its halves."""
    steps(shoal.ddp(torch.compile(network(), backend="aot_eager")))
    steps(torch.compile(shoal.ddp(network()), backend="aot_eager"))
    steps(torch.compile(torch.nn.parallel.DistributedDataParallel(network()), backend="aot_eager"))
    rank, plain = shoal.rank(), shoal.ddp(normed())
    made = torch.compile(shoal.ddp(normed()), backend="aot_eager")
    for step in range(3):
        x, y = batch(step)
        for net in (plain, made):
            net.zero_grad()
            loss_of(net, x[rank], y[rank]).backward()
        compare(made, plain)
        assert torch.allclose(made.module[1].running_mean, plain.module[1].running_mean)


def uneven():
    """Rank r has r + 1 batches; who has none is as good as a zero gradient."""
    from torch.distributed.algorithms.join import Join

    ddp, rank, ranks = shoal.ddp(network()), shoal.rank(), shoal.world_size()
    whole, rate = network(), 0.1
    with Join([ddp]):
        for step in range(rank + 1):
            x, y = batch(step)
            ddp.zero_grad()
            loss_of(ddp, x[rank], y[rank]).backward()
            with torch.no_grad():
                for p in ddp.parameters():
                    p -= rate * p.grad
    for step in range(ranks):
        x, y = batch(step)
        whole.zero_grad()
        (sum(loss_of(whole, x[r], y[r]) for r in range(step, ranks)) / ranks).backward()
        with torch.no_grad():
            for p in whole.parameters():
                p -= rate * p.grad
    for mine, its in zip(ddp.parameters(), whole.parameters()):
        assert torch.allclose(mine, its, atol=1e-6), (mine - its).abs().max()


def same_everywhere(net):
    mine = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    theirs = [torch.empty_like(mine) for _ in range(shoal.world_size())]
    dist.all_gather(theirs, mine)
    assert all(torch.equal(mine, other) for other in theirs)


def coded():
    """All of these with a codec: float16 has eleven bits; of two, with error feedback, nothing is
    lost for good, and replicas stay equal bit for bit."""
    from torch.distributed.algorithms.join import Join

    accumulation("fp16", 1e-3)
    for options in ({}, {"static_graph": True}):
        steps(shoal.ddp(network(), codec="fp16", **options), tolerance=1e-3)
        steps(shoal.ddp(Checkpointed(), codec="fp16", **options), tolerance=1e-3)
    ddp, rank = shoal.ddp(network(), codec="eden:bits=2,ef"), shoal.rank()
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    x, y = batch(0)
    first = loss_of(ddp, x[rank], y[rank]).item()
    with Join([ddp]):
        for _ in range(30 + 5 * rank):
            optimizer.zero_grad()
            with ddp.no_sync():
                loss_of(ddp, x[rank], y[rank]).backward()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_of(ddp, x[rank], y[rank])
            loss.backward()
            optimizer.step()
    same_everywhere(ddp)
    assert loss.item() < 0.7 * first, (rank, first, loss.item())
    if rank == shoal.world_size() - 1:
        launch.say(f"loss {first:.3f}, then {loss.item():.3f}")


def saved():
    import torch.distributed.checkpoint as dcp

    shoal.ddp(network())
    state = {"net": network().state_dict(), "step": torch.tensor(7)}
    folder = os.environ["SHOAL_TEST_FOLDER"]
    if os.environ["SHOAL_TEST_PART"] == "save":
        return dcp.save(state, checkpoint_id=folder)
    for tensor in state["net"].values():
        tensor.zero_()
    state["step"].zero_()
    dcp.load(state, checkpoint_id=folder)
    assert state["step"] == 7
    for name, tensor in network().state_dict().items():
        assert torch.equal(tensor, state["net"][name]), name


def sharded():
    """FSDP2 inside two "hosts" of two ranks, Shoal between their replicas."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("shoal")
    mesh = DeviceMesh("cpu", torch.arange(4).view(2, 2), mesh_dim_names=("replica", "shard"))
    net, whole, rank = network(), network(), dist.get_rank()
    for layer in (net[0], net[2], net):
        fully_shard(layer, mesh=mesh["shard"])
    shoal.fsdp(net, replicas=[rank % 2, rank % 2 + 2])
    for step in range(3):
        x, y = batch(step)
        net.zero_grad()
        whole.zero_grad()
        loss_of(net, x[rank], y[rank]).backward()
        loss_of(whole, x.flatten(0, 1), y.flatten()).backward()
        for mine, its in zip(net.parameters(), whole.parameters()):
            assert torch.allclose(mine.grad.full_tensor(), its.grad, atol=1e-6), step


def spawned(rank, port, folder):
    """A process of torch.multiprocessing.spawn."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), USE_LIBUV="0")
    os.environ.update(SHOAL_RENDEZVOUS=f"file://{folder}/job", RANK=str(rank), WORLD_SIZE="2")
    dist.init_process_group("shoal", rank=rank, world_size=2)
    steps(shoal.ddp(network()))
    shoal.close()


def under_torchrun():
    """A rank of torchrun's, which is lost in its first life if it is told so."""
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if not first and os.environ["RANK"] == "0":
        threading.Event().wait(2)  # the store still has the place of the first life
    dist.init_process_group("shoal")
    if "--lost" in sys.argv and first and dist.get_rank() == 1:
        os._exit(3)
    steps(shoal.ddp(network()))
    launch.say(f"life {os.environ['TORCHELASTIC_RESTART_COUNT']} rank {dist.get_rank()} is well")
    dist.destroy_process_group()
    shoal.close()


def has_libuv():
    """torchrun's own rendezvous asks for it, whatever USE_LIBUV says; Debian 13's 2.6 lacks it."""
    try:
        dist.TCPStore("127.0.0.1", 0, 1, True, use_libuv=True)
    except (RuntimeError, TypeError):
        return False
    return True


class TorchProcessesTest(launch.RanksTest):
    def test_accumulation_and_autocast(self):
        self.assert_ranks(accumulation)
        self.assert_ranks(autocast)

    def test_static_graph_checkpoints_of_activations_and_hooks_by_name(self):
        self.assert_ranks(around)

    def test_all_of_it_with_a_codec(self):
        print(self.assert_ranks(coded), flush=True)

    def test_uneven_inputs(self):
        self.assert_ranks(uneven)

    @unittest.skipIf(VERSION < (2, 0), "torch.compile came with PyTorch 2.0")
    def test_compiled(self):
        self.assert_ranks(compiled, ranks=2)

    @unittest.skipIf(VERSION < (2, 3), "dcp.save without a writer came with PyTorch 2.3")
    def test_checkpoints_across_world_sizes(self):
        folder = tempfile.mkdtemp(prefix="shoal-dcp-")
        os.environ["SHOAL_TEST_FOLDER"] = folder
        try:
            for part, ranks in (("save", 3), ("load", 2), ("load", 4)):
                os.environ["SHOAL_TEST_PART"] = part
                self.assert_ranks(saved, ranks)
        finally:
            shutil.rmtree(folder)

    @unittest.skipIf(VERSION < (2, 7), "PyTorch's FSDP2 has hooks in versions behind 2.6")
    def test_fsdp2_between_replicas(self):
        self.assert_ranks(sharded, ranks=4)

    def test_mp_spawn(self):
        folder = tempfile.mkdtemp(prefix="shoal-spawn-")
        with reserved_port() as reserved:
            arguments = (reserved.getsockname()[1], folder)
            torch.multiprocessing.spawn(spawned, arguments, nprocs=2)
        shutil.rmtree(folder)

    def torchrun(self, options, lives, *more):
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", *options]
            + [str(Path(__file__).resolve()), "--torchrun", *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=250,
            env=dict(os.environ, USE_LIBUV="0"),
        )
        self.assertEqual(0, done.returncode, done.stdout[-4000:])
        self.assertEqual(2, done.stdout.count(f"life {lives} rank"), done.stdout[-4000:])

    @unittest.skipIf(VERSION < (2, 0), "Debian's torchrun 1.13 crashes under Python 3.11")
    @unittest.skipUnless(has_libuv(), "this PyTorch's torchrun asks for libuv and has none")
    def test_torchrun(self):
        self.torchrun(["--nnodes=1", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0"], 0)

    @unittest.skipIf(VERSION < (2, 0), "Debian's torchrun 1.13 crashes under Python 3.11")
    @unittest.skipUnless(has_libuv(), "this PyTorch's torchrun asks for libuv and has none")
    def test_torchrun_starts_ranks_again(self):
        self.torchrun(["--standalone", "--max-restarts=1"], 1, "--lost")


if __name__ == "__main__":
    if "--torchrun" in sys.argv:
        under_torchrun()
    else:
        unittest.main()
