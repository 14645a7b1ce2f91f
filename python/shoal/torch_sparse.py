# SPDX-License-Identifier: Apache-2.0
"""Sparse tensors (gradients of embeddings): every rank's indices and values go to all, as they
are."""

import concurrent.futures

import torch

from ._comm import Comm
from .torch_work import Channel, as_floats, chain, from_floats, then


class SparseExchange:
    """The mean of one sparse tensor per rank. `result` is a future of the coalesced mean.

    Two operations, which carry the names `name` and the one behind it: how many entries each rank
    has, then as many of all ranks as the longest has. Integers travel as the bits of floats."""

    def __init__(self, comm: Comm, gradient: torch.Tensor, name: tuple):
        self.result: concurrent.futures.Future = concurrent.futures.Future()
        self.comm, self.gradient, self.name = comm, gradient, name
        self.dims = gradient.sparse_dim()
        self.value_floats = max(1, gradient.values().shape[1:].numel())
        self.counts = torch.zeros(comm.world_size, dtype=torch.int64)
        self.counts[comm.rank] = gradient.indices().shape[1]
        self._gather(self.counts.view(torch.float32), 0, self._entries)

    def _gather(self, floats, step, go_on):
        def finish(operation):
            try:
                operation.result()
                go_on()
            except Exception as error:
                self.result.set_exception(error)

        group, sequence = self.name
        operation = self.comm.start("all_gather", floats, name=(group, sequence + step), bits=True)
        operation.add_done_callback(finish)

    def _entries(self):
        longest = int(self.counts.max())
        self.places = 2 * self.dims * longest  # floats that hold the indices of one rank
        floats = self.places + longest * self.value_floats
        self.rows = torch.zeros(self.comm.world_size, floats)
        own = self.rows[self.comm.rank]
        indices = self.gradient.indices().contiguous().view(-1).view(torch.float32)
        values = self.gradient.values().to(torch.float32).reshape(-1)
        own[: indices.numel()] = indices
        own[self.places :][: values.numel()] = values
        self._gather(self.rows.view(-1), 1, self._finish)

    def _finish(self):
        indices, values = [], []
        shape = self.gradient.values().shape[1:]
        for row, count in zip(self.rows, self.counts.tolist()):
            places = row[: 2 * self.dims * count].clone().view(torch.int64)
            indices.append(places.view(self.dims, count))
            values.append(row[self.places :][: count * self.value_floats].view(count, *shape))
        mean = torch.cat(values) / self.comm.world_size
        total = torch.sparse_coo_tensor(torch.cat(indices, 1), mean, self.gradient.shape)
        self.result.set_result(total.coalesce().to(self.gradient.dtype))


def reduce_sparse(channel: Channel, tensor: torch.Tensor, average: bool, timeout):
    """A future of the sum (mean) of one sparse tensor per member of a channel, in tensor, of its
    own type: first how many entries each has, and of what shape, then as many of all as the longest
    has. Both names are taken now, so that what is started meanwhile keeps the order."""
    if tensor.layout != torch.sparse_coo:
        raise RuntimeError(f"shoal: a sparse tensor is to be COO, not {tensor.layout}")
    mine, names = tensor.detach().coalesce(), (channel.next(), channel.next())
    facts = torch.tensor([mine._nnz(), mine.sparse_dim(), *mine.shape])
    told, all_facts = channel.gather(facts, timeout, names[0])

    def entries():
        if any(not torch.equal(other[1:], facts[1:]) for other in all_facts):
            shapes = ", ".join(str(tuple(other[2:].tolist())) for other in all_facts)
            raise RuntimeError(f"shoal: sparse tensors of one shape on all ranks, not {shapes}")
        longest = max(int(other[0]) for other in all_facts)
        places = torch.zeros(mine.sparse_dim(), longest, dtype=torch.int64)
        places[:, : mine._nnz()] = mine.indices()
        values = torch.zeros(longest, *mine.values().shape[1:], dtype=mine.dtype)
        values[: mine._nnz()] = mine.values()
        split = as_floats(places).numel()
        rows = torch.cat([as_floats(places), as_floats(values)])
        moved, found = channel.gather(rows, timeout, names[1])

        def add():
            total = torch.zeros_like(mine)
            for row, other in zip(found, all_facts):
                where = from_floats(row[:split].clone(), places)[:, : int(other[0])]
                what = from_floats(row[split:].clone(), values)[: int(other[0])]
                total = total + torch.sparse_coo_tensor(where, what, mine.shape)
            total = total.coalesce()
            tensor.copy_(total / channel.size if average else total)

        return then(moved, add)

    return chain(told, entries)
