#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The process group "shoal" beside Gloo: the same calls of both in the same processes, and what one
gives is what the other gives; where ours must do more (name a rank), that too."""

import datetime
import re
import unittest

import launch

launch.needs("numpy")
torch = launch.needs("torch")

import torch.distributed as dist  # noqa: E402

import shoal  # noqa: E402, F401

SOON = datetime.timedelta(seconds=2)  # others come within it, however busy the machine


def begin():
    """(rank, ranks, [the group of ours, a group of Gloo's])."""
    dist.init_process_group("shoal", timeout=datetime.timedelta(seconds=60))
    both = [dist.new_group(), dist.new_group(backend="gloo")]
    return dist.get_rank(), dist.get_world_size(), both


def error_of(call):
    """The text of the RuntimeError (or ValueError) that call() raises, None without."""
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return str(error)
    return None


def gathered(group, rank, n, rows, columns):
    outputs = [[torch.zeros(i + 1, 2) for i in range(columns)] for _ in range(rows)]
    mine = [torch.full((i + 1, 2), 10.0 * rank + i) for i in range(n)]
    dist.all_gather_coalesced(outputs, mine, group=group)
    return outputs


def all_gather_coalesced():
    rank, n, groups = begin()
    ours, theirs = (gathered(group, rank, n, n, n) for group in groups)
    for r in range(n):
        for i in range(n):
            assert torch.equal(ours[r][i], theirs[r][i]), (r, i, ours, theirs)
            assert (ours[r][i] == 10 * r + i).all()
    for rows, columns in ((n - 1, n), (n + 1, n), (n, n - 1)):
        for group in groups:
            assert error_of(lambda: gathered(group, rank, n, rows, columns)), (rows, columns)
    dist.barrier()


def groups_are_destroyed():
    rank, n, groups = begin()
    for group in groups[::-1]:
        x = torch.ones(1)
        dist.all_reduce(x, group=group)
        dist.destroy_process_group(group)
        assert x == n
    named = dist.distributed_c10d._get_default_group()
    named._set_group_name("a name")
    assert named.group_name == "a name"
    dist.barrier()


def a_groups_timeout_is_kept():
    rank, n, _ = begin()
    calls = (dist.barrier, lambda group: dist.all_reduce(torch.ones(3, 3).double(), group=group))
    calls += (lambda group: dist.recv(torch.zeros(1), 1, group=group),)
    for call in calls:
        short = dist.new_group(timeout=datetime.timedelta(seconds=1))
        said = error_of(lambda: call(group=short)) if rank != 1 else "rank 1 is not here"
        assert said and "rank 1" in said, said
        assert rank == 1 or " Timed out " in said, said  # as PyTorch's tests of Gloo look for it
        dist.barrier()


def messages(group, rank, n):
    """What rank 0 found, as (source, first value, elements): from anybody, two tags, several sizes,
    and from one member of another size while others are asked for."""
    found = []
    if rank != 0:
        for size in (3, 3):
            dist.send(torch.full((size,), float(rank)), 0, group=group)
        dist.send(torch.full((rank,), rank, dtype=torch.int64), 0, group=group, tag=3)
        dist.send(torch.full((2,), -float(rank)), 0, group=group, tag=7)
        return found
    for _ in range(2 * (n - 1)):
        x = torch.zeros(3)
        found.append((dist.recv(x, group=group), float(x[0]), x.numel()))
    for source in reversed(range(1, n)):
        x = torch.zeros(source, dtype=torch.int64)
        assert dist.recv(x, source, group=group, tag=3) == source
        found.append((source, int(x[0]), x.numel()))
    works = [(dist.irecv(x, group=group, tag=7), x) for x in torch.zeros(n - 1, 2)]
    for work, x in works:
        work.wait()
        found.append((work._source_rank(), float(x[1]), 2))
    return sorted(found)


def receive_from_anybody():
    rank, n, groups = begin()
    ours, theirs = (messages(group, rank, n) for group in groups)
    assert ours == theirs, (ours, theirs)
    assert rank != 0 or [f[0] for f in ours] == sorted(list(range(1, n)) * 4), ours
    dist.barrier()
    for group in groups:  # who asks first gets the first message, also beside one that names it
        pair, tensors = dist.isend, torch.tensor([1.0, 2.0])
        if rank == 1:
            for x in tensors:
                pair(x.view(1), 0, group=group).wait()
        if rank == 0:
            first, second = torch.zeros(1), torch.zeros(1)
            any_work = dist.irecv(first, group=group)
            dist.irecv(second, 1, group=group).wait()
            any_work.wait()
            assert {float(first), float(second)} == {1.0, 2.0}
            assert group is not groups[0] or first == 1, (first, second)
        dist.barrier()
    if rank == 0:
        said = error_of(lambda: dist.irecv(torch.zeros(1), group=groups[0], tag=9).wait(SOON))
        assert "nobody has sent within 2 s" in said, said
    dist.barrier()


def sparse(rank, entries, dtype, shape=(6, 4)):
    places = torch.tensor([[(rank + k) % shape[0] for k in range(entries)]], dtype=torch.int64)
    values = torch.arange(1.0, entries * shape[1] + 1).view(entries, shape[1]) + rank
    return torch.sparse_coo_tensor(places, values.to(dtype), shape)


def sparse_tensors_are_summed():
    rank, n, groups = begin()
    for dtype in (torch.float32, torch.float64, torch.int64):
        for entries in (rank, 3, 0):
            sums = []
            for group in groups:
                x = sparse(rank, entries, dtype)
                dist.all_reduce(x, group=group)
                sums.append(x)
            ours, theirs = sums
            assert ours.is_sparse and ours.dtype == dtype and ours.is_coalesced()
            assert torch.equal(ours.to_dense(), theirs.to_dense()), (ours, theirs)
    said = error_of(lambda: dist.all_reduce(sparse(rank, 1, dtype, (6 + rank, 4))))
    assert said and "one shape on all ranks, not (6, 4), (7, 4), (8, 4)" in said, said
    dist.barrier()


def monitored(group, rank, missing, all_ranks):
    """What a monitored barrier without some members says."""
    if rank in missing:
        return None
    limit = SOON if missing else datetime.timedelta(seconds=60)
    return error_of(lambda: group.monitored_barrier(limit, wait_all_ranks=all_ranks))


def monitored_barrier():
    rank, n, groups = begin()
    for missing, all_ranks, words in (
        ([], False, None),
        ([2], False, "Rank 2 failed to pass monitoredBarrier in 2000 ms"),
        ([1, 2], True, "Ranks 1, 2 failed to pass monitoredBarrier in 2000 ms"),
        ([1, 2], False, "Rank 1 failed to pass monitoredBarrier in 2000 ms"),
        ([], True, None),
    ):
        for backend in ("shoal",) if len(missing) == 2 and all_ranks else ("shoal", "gloo"):
            group = dist.new_group(backend=backend)
            group = getattr(group, "_get_backend", lambda _: group)(torch.device("cpu"))
            said = monitored(group, rank, missing, all_ranks)
            if rank not in missing and missing:
                expected = words if rank == 0 else f"Rank {rank} successfully reached monitored"
                assert said and expected in said, (backend, said)
                assert backend == "gloo" or rank == 0 or re.search(r"missing there: \[[12]", said)
            else:
                assert said is None, (backend, said)
            dist.barrier()
    if rank == 0:
        said = error_of(lambda: dist.new_group([0]).monitored_barrier(datetime.timedelta(0)))
        assert "Rank 0 timed out in monitoredBarrier after 0 ms" in said
    else:
        dist.new_group([0])
    dist.barrier()


class TorchGlooTest(launch.RanksTest):
    def test_all_gather_coalesced(self):
        self.assert_ranks(all_gather_coalesced)

    def test_groups_are_destroyed(self):
        self.assert_ranks(groups_are_destroyed)

    def test_a_groups_timeout_is_kept(self):
        self.assert_ranks(a_groups_timeout_is_kept)

    def test_receive_from_anybody(self):
        self.assert_ranks(receive_from_anybody, ranks=4)

    def test_sparse_tensors_are_summed(self):
        self.assert_ranks(sparse_tensors_are_summed)

    def test_monitored_barrier(self):
        self.assert_ranks(monitored_barrier)


if __name__ == "__main__":
    unittest.main()
