#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensors of a device through every entry, on a fake one that runs its streams in wrong orders
wherever a wait is missing: bit for bit what the path on the CPU gives, and errors with names."""

import contextlib
import hashlib
import threading
import unittest

import launch

launch.needs("numpy")
torch = launch.needs("torch")

import fake_device  # noqa: E402
import torch.distributed as dist  # noqa: E402

import shoal  # noqa: E402
from shoal import _staging  # noqa: E402
from shoal.torch_ddp import Hook  # noqa: E402

TYPES = (torch.float32, torch.float16, torch.bfloat16)
COUNT = 5000
seed = [None]  # of the fake device; None: on the CPU


class OnHost:
    """The CPU itself, where the test does what it would give a stream."""

    def compute(self, action):
        action()

    def synchronize(self):
        pass


@contextlib.contextmanager
def device(**options):
    """In the block, what is on the CPU passes for the fake device's."""
    if seed[0] is None and not options.pop("always", False):
        yield OnHost()
        return
    options.pop("always", None)
    fake = fake_device.FakeDevice(seed[0] or 0, **options)
    _staging._stagings.clear()
    _staging.makers["cpu"] = lambda _: fake
    _staging.PIECE_BYTES = 4096  # several pieces of small tensors
    try:
        yield fake
        fake.synchronize()
    finally:
        del _staging.makers["cpu"]
        _staging._stagings.clear()


def values(dtype, number, count=COUNT):
    g = torch.Generator().manual_seed(100 * number + shoal.rank())
    return torch.randn(count, generator=g).to(dtype)


def late(fake, dtype, number, count=COUNT):
    """A tensor that gets its values by a kernel, which has not run when this returns."""
    tensor = torch.full((count,), 7.0, dtype=dtype)
    fake.compute(lambda: tensor.copy_(values(dtype, number, count)))
    return tensor


def tell(what, tensors):
    """A line that is the same where bits are."""
    bits = hashlib.sha256()
    for tensor in tensors:
        bits.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    launch.say(f"rank {shoal.rank()}: {what}: {bits.hexdigest()[:16]}")


def read(fake, tensors):
    """What the caller's stream sees now; it overwrites the tensors then."""
    seen = [torch.empty_like(t) for t in tensors]
    for target, tensor in zip(seen, tensors):
        fake.compute(lambda target=target, tensor=tensor: target.copy_(tensor))
        fake.compute(tensor.zero_)
    return seen


# ---------------------------------------------------------------------- entries


def allreduces():
    for dtype in TYPES:
        for options in ({}, {"average": True}, {"codec": "terngrad"}, {"reduce": "max"}):
            seen = []
            with device() as fake:
                for i in range(3):
                    tensor = late(fake, dtype, i)
                    assert shoal.allreduce(tensor, **options) is tensor
                    seen += read(fake, [tensor])
            tell(f"allreduce {dtype} {options}", seen)
    with device() as fake:
        tensor = late(fake, torch.float16, 9)
        shoal.broadcast(tensor, root=1)
        seen = read(fake, [tensor])
    tell("broadcast", seen)


class Bucket:
    """What of PyTorch's buckets the hook sees."""

    def __init__(self, tensor, parameter, index):
        self.buffer, self.parameters = lambda: tensor, lambda: [parameter]
        self.index = lambda: index


def hooks():
    """Steps behind each other: a bucket goes again before its last way back is over, and a
    stream reads what a future carries."""
    coded = [(torch.float32, "eden:bits=4,ef"), (torch.bfloat16, "powersgd:rank=2")]
    for dtype, codec in [(dtype, None) for dtype in (*TYPES, torch.float64)] + coded:
        layers, seen = torch.nn.ModuleList(torch.nn.Linear(100, 50) for _ in range(2)), []
        hook = Hook(layers, shoal.comm(), codec, None)
        with device() as fake:
            for step in range(3):
                parts = [late(fake, dtype, 10 * step + i) for i in range(2)]
                started = [
                    hook.start(Bucket(part, layers[i].weight, i))
                    for i, part in enumerate(parts)
                ]
                seen += read(fake, [f.wait() for f in started])
        assert hook.error is None
        tell(f"hook {dtype} {codec}", seen)


def network(dtype=torch.float32):
    torch.manual_seed(5)
    return torch.nn.Sequential(
        torch.nn.Linear(10, 60), torch.nn.Tanh(), torch.nn.Linear(60, 3)
    ).to(dtype)


def loss_of(net, step):
    x = values(torch.float32, step, 160).view(16, 10)
    y = torch.arange(16) % 3
    return torch.nn.functional.cross_entropy(net(x.to(next(net.parameters()).dtype)).float(), y)


def modules():
    for codec in (None, "eden:bits=2,ef"):
        with device(on_host=True):
            net = shoal.ddp(network(), codec=codec, bucket_cap_mb=0.001)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for step in range(3):
                optimizer.zero_grad()
                loss_of(net, step).backward()
                optimizer.step()
        tell(f"ddp {codec}", net.parameters())


def protocols():
    for dtype in (torch.float32, torch.bfloat16):
        for sync in ("all_reduce", "diloco:every=2", "param_server"):
            with device(on_host=True):
                net = network(dtype)
                optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
                shoal.wrap(optimizer, sync=sync)
                for step in range(4):
                    optimizer.zero_grad()
                    loss_of(net, step).backward()
                    optimizer.step()
                optimizer.finish()
            tell(f"wrap {dtype} {sync}", net.parameters())


class StandIn(torch.nn.Linear):
    """What of FSDPModule the hook sees."""

    def set_all_reduce_hook(self, hook):
        self.hook = hook


def shards():
    net = StandIn(2, 2)
    shoal.fsdp(net, codec="int8")
    for dtype in TYPES:
        with device() as fake:
            shard = late(fake, dtype, 3).view(50, 100)
            net.hook(shard)
            seen = read(fake, [shard])
        tell(f"fsdp {dtype}", seen)


def groups():
    """Several operations at once, and only then the waits."""
    n, rank = shoal.world_size(), shoal.rank()
    for dtype in (torch.float16, torch.int64):
        with device() as fake:
            a, b, c, d = (late(fake, dtype, i, 600) for i in range(4))
            parts = [torch.full((600,), 7).to(dtype) for _ in range(n)]
            small = torch.full((200,), 7).to(dtype)
            other = torch.full((600,), 7).to(dtype)
            works = [
                dist.all_reduce(a, async_op=True),
                dist.broadcast(b, 1, async_op=True),
                dist.all_gather(parts, c, async_op=True),
                dist.reduce_scatter(small, list(d.split(200)), async_op=True),
            ]
            if rank == 0:
                works.append(dist.isend(c, 2))
            if rank == 2:
                works.append(dist.irecv(other, 0))
            works.append(dist.all_reduce(c, op=dist.ReduceOp.MAX, async_op=True))
            works.append(dist.reduce(d, 1, async_op=True))
            for work in works:
                work.wait()
            exchanged = [torch.full((200,), 7).to(dtype) for _ in range(n)]
            dist.all_to_all(exchanged, list(a.split(200)))
            seen = read(fake, [a, b, c, d, small, other, *parts, *exchanged])
        tell(f"group {dtype}", seen)
    with device() as fake:
        a = late(fake, torch.float32, 5)
        future = dist.all_reduce(a, async_op=True).get_future()
        seen = read(fake, future.wait())
    tell("future", seen)


def withheld():
    """Copies back that a stream has not come to yet when the next tensor wants the same memory,
    and when the caller's stream has not done with its target."""
    ones, twos = torch.ones(600), torch.full((600,), 2.0)

    def meanwhile(fake, action):
        """action() while a stream stands still: a fault has time to do its harm."""
        thread = threading.Thread(target=action)
        thread.start()
        thread.join(0.1)
        fake.hold(None)
        thread.join()
        fake.synchronize()

    with device(always=True) as fake:
        staging, seen = _staging.of(ones), torch.zeros(600)
        for action in (
            lambda: staging.put(torch.zeros(600), twos, "one key"),
            lambda: staging.fetch(seen, twos, "one key"),
        ):
            target = torch.zeros(600)
            fake.hold("back")
            fill = lambda host, start, end: host[start:end].fill_(1)  # noqa: E731
            way = [(target, False, True)]  # the caller's stream does not wait for it
            staging.travel(way, _staging._at_once, "one key", leaving=fill).result()
            meanwhile(fake, action)
            assert (target == 1).all(), target
        assert (seen == 2).all(), seen
        fake.hold("user")
        target = late(fake, torch.float32, 1, 600)
        meanwhile(fake, lambda: (staging.put(target, twos), threading.Event().wait(0.1)))
        assert (target == 2).all(), target


def entries():
    shoal.init(seed=11)
    dist.init_process_group("shoal")
    for entry in (allreduces, hooks, modules, protocols, shards, groups):
        entry()


# ---------------------------------------------------------------------- what goes wrong


def wanted(kind, text, action):
    try:
        action()
    except kind as error:
        assert text in str(error), error
        return launch.say("named")
    raise AssertionError(f"no {kind.__name__}")


def failures():
    shoal.init(op_timeout=20)
    layer = torch.nn.Linear(100, 50, bias=False)
    with device(always=True, pinned_limit=40000):
        shoal.allreduce(values(torch.float32, 1))
        shoal.allreduce(values(torch.float16, 1))  # what is not in use is given up for it
        bigger = torch.zeros(10000)
        wanted(shoal.OutOfMemory, "pinned memory", lambda: shoal.allreduce(bigger))
        hook = Hook(layer, shoal.comm(), None, None)
        started = hook.start(Bucket(bigger, layer.weight, 0))
        wanted(RuntimeError, "OutOfMemory", started.wait)
        assert isinstance(hook.error, shoal.OutOfMemory)
    with device(always=True) as fake:
        fake.failure = "CUDA error: device-side assert triggered\nmore lines"  # before we came
        wanted(shoal.SystemFailed, "assert triggered", lambda: shoal.allreduce(torch.zeros(9)))
        fake.failure = None
    with device(always=True, fails_after=0):
        hook = Hook(layer, shoal.comm(), None, None)
        started = hook.start(Bucket(values(torch.float32, 1), layer.weight, 0))
        wanted(RuntimeError, "SystemFailed: fake:0 failed: CUDA error", started.wait)
        wanted(shoal.SystemFailed, "illegal memory", lambda: shoal.allreduce(torch.zeros(9)))
    with device(always=True):
        wanted(TypeError, "torch.int64", lambda: shoal.allreduce(torch.zeros(4, dtype=int)))
        other = torch.zeros(2, 3).t()
        wanted(TypeError, "contiguous", lambda: shoal.allreduce(other))
    meta = torch.zeros(4, device="meta")
    wanted(shoal.NotSupported, "not on meta", lambda: shoal.allreduce(meta))
    wanted(shoal.InvalidArgument, "one device", lambda: _staging.among([meta, torch.zeros(1)]))


class TorchDeviceTest(launch.RanksTest):
    def test_bits_are_those_of_the_cpu(self):
        seed[0] = None
        expected = sorted(self.assert_ranks(entries).splitlines())
        self.assertGreater(len(expected), 80)
        for seed[0] in range(len(fake_device.ORDERS)):
            found = sorted(self.assert_ranks(entries).splitlines())
            self.assertEqual(expected, found, f"seed {seed[0]}")
        print(f"{len(expected)} results, {len(fake_device.ORDERS)} orders of streams")

    def test_memory_that_is_still_in_use(self):
        self.assert_ranks(withheld, ranks=1)

    def test_failures_have_names(self):
        printed = self.assert_ranks(failures, ranks=1)
        self.assertEqual(9, printed.count("named"), printed)


if __name__ == "__main__":
    unittest.main()
