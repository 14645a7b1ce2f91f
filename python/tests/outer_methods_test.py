#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Outer methods as their papers write them, in NumPy's double, beside real processes: four ranks
descend quadratics of their own with plain SGD, each keeps where it was after every iteration, and
the formulas of DiLoCo, SparseLoCo, Streaming DiLoCo and NoLoCo have to give the same; so has DeMo,
whose steps are signs of what all send in every iteration, and 0/1 Adam, whose ranks step apart."""

import ctypes as C
import os
import shutil
import tempfile
import unittest

import launch

np = launch.needs("numpy")

import shoal  # noqa: E402
from shoal import _abi  # noqa: E402
from shoal._library import dll, struct  # noqa: E402

RANKS, TENSOR, TENSORS, RATE = 4, 2500, 3, 0.25
COUNT = TENSOR * TENSORS
SHAPES = ((50, 50), (1, TENSOR), (20, 125))  # of the tensors, where shapes matter
FOLDER = os.environ.get("OUTER_METHODS_FOLDER", "")


def gradient(rank, iteration, x):
    """Of a quadratic with a minimum of the rank's own, and noise."""
    aim = np.random.default_rng(rank + 1).normal(size=COUNT)
    noise = np.random.default_rng(1000 * (rank + 1) + iteration).normal(size=COUNT)
    return np.linspace(0.5, 1.5, COUNT) * (x - aim) + 0.3 * noise


def tensors():
    table = (_abi.shoal_tensor * TENSORS)()
    for i, tensor in enumerate(table):
        tensor.key, tensor.offset, tensor.count = i + 1, i * TENSOR, TENSOR
        (tensor.rows, tensor.cols), tensor.lr_scale = SHAPES[i], 1.0
    return table


def descend(sync, codec, collective, iterations):
    """A rank: the library's protocol around SGD; where it was goes to a file."""
    comm = shoal.init()
    x, g = np.zeros(COUNT, np.float32), np.zeros(COUNT, np.float32)
    table = tensors()
    desc = struct(_abi.shoal_sync_desc, sync=sync, codec=codec, collective=collective,
                  params=x.ctypes.data, grads=g.ctypes.data, count=COUNT, tensors=table,
                  tensor_count=TENSORS)
    handle, verdict, way = C.c_void_p(), _abi.shoal_verdict(), []
    dll.shoal_sync_create(comm._usable(), C.byref(desc), C.byref(handle))
    for iteration in range(iterations):
        g[:] = gradient(comm.rank, iteration, x)
        dll.shoal_sync_before_update(handle, C.byref(verdict))
        assert verdict.apply
        x -= np.float32(RATE * verdict.grad_scale) * g
        dll.shoal_sync_after_update(handle, C.byref(verdict))
        way.append(x.copy())
    dll.shoal_sync_finish(handle)
    dll.shoal_sync_destroy(handle)
    np.save(os.path.join(FOLDER, f"rank-{comm.rank}.npy"), np.array([*way, x]))


WARMUP, LOCAL, DOUBLING, BETAS = 18, 4, 8, (0.9, 0.99)


def distance(iteration):
    """Of 0/1 Adam's meetings: 1 for DOUBLING iterations behind the warm-up, then 2, then LOCAL."""
    return min(LOCAL, 2 ** ((iteration - WARMUP) // DOUBLING))


def meets(iteration):
    return (iteration - WARMUP + 1) % distance(iteration) == 0


def adam_step(iteration, v, m):
    """How far a momentum moves the weights, with Adam's corrections; v stands still by then."""
    settled = 1 - BETAS[1] ** min(iteration + 1, WARMUP)
    return 0.01 * m / (1 - BETAS[0] ** (iteration + 1)) / (np.sqrt(v / settled) + 0.01)


def descend_apart(iterations):
    """A rank with the Adam, in double, that docs/codecs.md asks for behind onebit:local."""
    comm = shoal.init()
    x, met, m, v = (np.zeros(COUNT) for _ in range(4))
    shown, g = np.zeros(COUNT, np.float32), np.zeros(COUNT, np.float32)
    desc = struct(_abi.shoal_sync_desc, sync="all_reduce",
                  codec=f"onebit:warmup={WARMUP},local={LOCAL},doubling={DOUBLING}",
                  params=shown.ctypes.data, grads=g.ctypes.data, count=COUNT, tensors=tensors(),
                  tensor_count=TENSORS)
    handle, verdict, way, since = C.c_void_p(), _abi.shoal_verdict(), [], 0
    dll.shoal_sync_create(comm._usable(), C.byref(desc), C.byref(handle))
    for iteration in range(iterations):
        g[:] = gradient(comm.rank, iteration, x)
        dll.shoal_sync_before_update(handle, C.byref(verdict))
        got = verdict.grad_scale * g.astype(np.float64)
        since += 1
        here = iteration >= WARMUP and meets(iteration)
        m = got if here else BETAS[0] * m + (1 - BETAS[0]) * got
        if iteration < WARMUP:
            v = BETAS[1] * v + (1 - BETAS[1]) * got ** 2
        x = met - since * adam_step(iteration, v, m) if here else x - adam_step(iteration, v, m)
        if here or iteration < WARMUP:
            met, since = x, 0
        dll.shoal_sync_after_update(handle, C.byref(verdict))
        way.append(x.copy())
    dll.shoal_sync_finish(handle)
    dll.shoal_sync_destroy(handle)
    np.save(os.path.join(FOLDER, f"rank-{comm.rank}.npy"), np.array(way))


def one_bit(c):
    """Signs times the mean size of every 256, of which `sign` keeps 15 bits behind the first."""
    mean = np.add.reduceat(np.abs(c), range(0, COUNT, 256)) / np.add.reduceat(
        np.ones(COUNT), range(0, COUNT, 256))
    mean = (mean.astype(np.float32).view(np.uint32) & 0xffffff00).view(np.float32)
    return np.where(c < 0, -1, 1) * np.repeat(mean, 256)[:COUNT]


def zero_one_adam(way):
    """The paper's algorithm 1, along the way that ranks took: where all of them are after each
    iteration. u: the sum of a rank's momenta since it met the others, owed: what bits left out."""
    shape = (RANKS, COUNT)
    x, m, u, owed, v = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape), 0
    here, met, since = np.zeros(shape), np.zeros(COUNT), 0
    for iteration, there in enumerate(way):
        g = np.array([gradient(rank, iteration, here[rank]) for rank in range(RANKS)])
        if iteration < WARMUP:
            g[:] = g.mean(axis=0)
            v = BETAS[1] * v + (1 - BETAS[1]) * g[0] ** 2
        m = BETAS[0] * m + (1 - BETAS[0]) * g
        x = x - adam_step(iteration, v, m)
        if iteration < WARMUP:
            met = x[0]
        else:
            u, since = u + m, since + 1
        if iteration >= WARMUP and meets(iteration):
            sent = np.array([one_bit(c) for c in u + owed])
            owed = u + owed - sent
            met = met - adam_step(iteration, v, sent.mean(axis=0))
            x, m, u = (np.broadcast_to(a, shape) for a in (met, sent.mean(axis=0) / since, 0.0))
            since = 0
        yield x
        here = there


def chunk_topk(e, k, bits):
    """The k largest of every 4096, the last chunk's share rounded up; as float32 or two levels."""
    sent = np.zeros_like(e)
    for first in range(0, len(e), 4096):
        part = e[first:first + 4096]
        kept = np.argsort(-np.abs(part), kind="stable")[:-(-k * len(part) // 4096)]
        size = np.abs(part[kept])
        if bits == 2:
            upper = size > size.mean()
            low = size[~upper].mean() if (~upper).any() else 0.0
            high = size[upper].mean() if upper.any() else 0.0
            size = np.where((size > (low + high) / 2) & (high > 0), high, low)
        sent[first + kept] = np.sign(part[kept]) * size
    return sent


class Reference:
    """All ranks at once. start, moved: base and what each has moved; then the outer step."""

    def __init__(self, every, lr, momentum, fragments=1, delay=0, keep=0.0, code=None):
        self.x = np.zeros((RANKS, COUNT))
        self.base, self.velocity = np.zeros(COUNT), np.zeros(COUNT)
        self.residual = np.zeros((RANKS, COUNT))
        self.interval, self.lr, self.momentum = every // fragments, lr, momentum
        self.fragments, self.delay, self.keep, self.code = fragments, delay, keep, code
        self.way, self.travelling = [], []

    def inner(self, iteration):
        for rank in range(RANKS):
            self.x[rank] -= RATE * gradient(rank, iteration, self.x[rank])

    def depart(self, done):
        """A fragment's pseudo-gradients of now, and their mean."""
        turn = (done // self.interval - 1) % self.fragments
        part = slice(turn * COUNT // self.fragments, (turn + 1) * COUNT // self.fragments)
        moved = self.base[part] - self.x[:, part]
        for rank in range(RANKS if self.code else 0):
            decay, k, bits = self.code
            e = decay * self.residual[rank, part] + moved[rank]
            moved[rank] = chunk_topk(e, k, bits)
            self.residual[rank, part] = e - moved[rank]
        self.travelling.append((done + self.delay, part, moved.mean(axis=0)))

    def arrive(self, part, mean):
        self.velocity[part] = self.momentum * self.velocity[part] + mean
        self.base[part] -= self.lr * (mean + self.momentum * self.velocity[part])
        self.x[:, part] = self.keep * self.x[:, part] + (1 - self.keep) * self.base[part]

    def run(self, iterations):
        for iteration in range(iterations):
            self.inner(iteration)
            if (iteration + 1) % self.interval == 0:
                self.depart(iteration + 1)
            while self.travelling and self.travelling[0][0] == iteration + 1:
                self.arrive(*self.travelling.pop(0)[1:])
            self.way.append(self.x.copy())
        self.way.append(np.broadcast_to(self.x.mean(axis=0), self.x.shape))
        return np.array(self.way)


def noloco(got, every, alpha, beta, gamma):
    """NoLoCo over the way that the ranks took, whose pairs it does not know: in each round one of
    the three ways to pair four fits. The largest difference of each iteration, and the pairings."""
    shape = (RANKS, COUNT)
    x, slow, delta, off, chosen = np.zeros(shape), np.zeros(shape), np.zeros(shape), [], []
    for iteration, there in enumerate(got[:-1]):
        for rank in range(RANKS):
            x[rank] -= RATE * gradient(rank, iteration, x[rank])
        if (iteration + 1) % every == 0:
            found = []
            for other in (1, 2, 3):
                rest = [rank for rank in (1, 2, 3) if rank != other]
                partner = np.zeros(RANKS, int)
                partner[[0, other, *rest]] = [other, 0, *rest[::-1]]
                moved = ((x - slow) + (x - slow)[partner]) / 2
                apart = (slow + slow[partner]) / 2 - slow
                step = alpha * delta + beta * moved + gamma * apart
                found.append((np.abs(slow + step - there).max(), other, step))
            _, other, delta = min(found, key=lambda one: one[0])
            chosen.append(other)
            slow = slow + delta
            x = slow.copy()
        off.append(np.abs(x - there).max())
    return [*off, np.abs(got[-1] - x.mean(axis=0)).max()], chosen


def waves(n):
    """The orthonormal DCT-II of n values: row k is its k-th cosine."""
    k, i = np.mgrid[:n, :n]
    return np.sqrt(np.where(k == 0, 1, 2) / n) * np.cos(np.pi / n * (i + 0.5) * k)


def extract(momentum, k, side):
    """What DeMo sends of a momentum, after the inverse: of each tile's waves the k largest."""
    sent = np.zeros_like(momentum)
    for first, (rows, cols) in zip(range(0, COUNT, TENSOR), SHAPES):
        here, there = (a[first:first + TENSOR].reshape(rows, cols) for a in (momentum, sent))
        for r in range(0, rows, side):
            for c in range(0, cols, side):
                tile = here[r:r + side, c:c + side]
                down, across = waves(tile.shape[0]), waves(tile.shape[1])
                all_waves = down @ tile @ across.T
                least = np.sort(np.abs(all_waves), axis=None)[-min(k, all_waves.size)]
                kept = np.where(np.abs(all_waves) >= least, all_waves, 0)
                there[r:r + side, c:c + side] = down.T @ kept @ across
    return sent


def demo(got, k, side, beta):
    """DeMo along the way that ranks took: the sum of each iteration, whose sign is the step."""
    momentum, here = np.zeros((RANKS, COUNT)), np.zeros((RANKS, COUNT))
    for iteration, there in enumerate(got):
        total = np.zeros(COUNT)
        for rank in range(RANKS):
            momentum[rank] = beta * momentum[rank] + gradient(rank, iteration, here[rank])
            sent = extract(momentum[rank], k, side)
            momentum[rank] -= sent
            total += sent
        yield total, there - here
        here = there


class OuterMethods(launch.RanksTest):
    def ways(self, sync, iterations, codec=None, collective=None, run=descend):
        """[iterations and the end][rank][element]"""
        global FOLDER
        FOLDER = tempfile.mkdtemp(prefix="shoal-outer-")
        try:
            self.assert_ranks(lambda: run(sync, codec, collective, iterations), ranks=RANKS)
            return np.array([np.load(os.path.join(FOLDER, f"rank-{rank}.npy"))
                             for rank in range(RANKS)]).swapaxes(0, 1).astype(np.float64)
        finally:
            shutil.rmtree(FOLDER)

    def compare(self, got, want):
        self.assertEqual(got.shape, want.shape)
        for iteration, (one, other) in enumerate(zip(got, want)):
            self.assertLess(np.abs(one - other).max(), 2e-5, f"after iteration {iteration}")
        self.assertGreater(np.abs(want[-1]).max(), 0.1)

    def test_diloco(self):
        got = self.ways("diloco:every=4,lr=0.7,momentum=0.9", 20)
        self.compare(got, Reference(4, 0.7, 0.9).run(20))

    def test_streaming_diloco(self):
        """Three fragments, each on its way for one iteration, mixed half and half on arrival."""
        got = self.ways("diloco:every=6,fragments=3,delay=1,keep=0.5,lr=0.4,momentum=0.9", 25)
        self.compare(got, Reference(6, 0.4, 0.9, 3, 1, 0.5).run(25))

    def test_sparseloco(self):
        """No outer momentum: the decayed error feedback stands for it."""
        for bits in (32, 2):
            got = self.ways("diloco:every=4,lr=1,momentum=0", 20,
                            f"chunk_topk:k=64,q={bits},decay=0.9", "gather")
            self.compare(got, Reference(4, 1, 0, code=(0.9, 64, bits)).run(20))

    def test_demo(self):
        """Each weight moves by the rate, against the sign; or either way, if it is rounding."""
        got = self.ways("all_reduce", 50, "demo:k=8,chunk=16,beta=0.95")
        certain = 0
        for total, moved in demo(got[:-1], 8, 16, 0.95):
            clear = np.abs(total) > 1e-4
            self.assertLess(np.abs(moved + RATE * np.sign(total))[:, clear].max(), 1e-5)
            certain += clear.sum()
        self.assertGreater(certain, 0.99 * 50 * COUNT)

    def test_zero_one_adam(self):
        """Everywhere, but where rounding turns a sign; together at meetings, apart between them."""
        got = self.ways(None, 50, run=lambda *_: descend_apart(50))
        for iteration, want in enumerate(zero_one_adam(got)):
            off = np.abs(got[iteration] - want).max(axis=0) > 1e-4
            self.assertLess(off.sum(), 10, f"after iteration {iteration}")
            spread = np.ptp(got[iteration], axis=0).max()
            if iteration < WARMUP or meets(iteration):
                self.assertEqual(0, spread, f"after iteration {iteration}")
            else:
                self.assertGreater(spread, 1e-3, f"after iteration {iteration}")
        self.assertGreater(np.abs(got[-1]).max(), 0.1)

    def test_noloco(self):
        """Pairs instead of all; weights of the pair's mean and of the outer rate apart."""
        for pull in (0.7, 0.9):
            got = self.ways(f"noloco:every=3,lr=0.7,momentum=0.5,pull={pull}", 30)
            off, chosen = noloco(got, 3, 0.5, 0.7, pull)
            self.assertLess(max(off), 2e-5)
            self.assertEqual({1, 2, 3}, set(chosen))  # whom rank 0 met


if __name__ == "__main__":
    unittest.main()
