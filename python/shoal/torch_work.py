# SPDX-License-Identifier: Apache-2.0
"""What a process group is made of: a communicator's operations among some ranks on tensors of any
type, as futures of PyTorch."""

import concurrent.futures
from typing import Callable, List, Optional, Sequence

import torch

from ._comm import Comm, key_of


def as_floats(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor's bytes as float32[...], padded with zeros, to travel as bits."""
    raw = tensor.detach().contiguous().view(-1)
    raw = raw.view(torch.uint8) if raw.dtype != torch.bool else raw.to(torch.uint8)
    padded = torch.zeros(-(-raw.numel() // 4) * 4, dtype=torch.uint8)
    padded[: raw.numel()] = raw
    return padded.view(torch.float32)


def from_floats(floats: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The tensor of like's type and shape whose bytes as_floats() took."""
    raw = floats.view(torch.uint8)
    if like.dtype == torch.bool:
        return raw[: like.numel()].to(torch.bool).view(like.shape)
    return raw[: like.numel() * like.element_size()].view(like.dtype).view(like.shape)


def settled(value=None) -> concurrent.futures.Future:
    """A future that is done."""
    future = concurrent.futures.Future()
    future.set_result(value)
    return future


def all_of(futures: Sequence[concurrent.futures.Future]) -> concurrent.futures.Future:
    """Done when all are; fails with the first failure."""
    if not futures:
        return settled()
    whole = concurrent.futures.Future()
    left = [len(futures)]

    def one(future):
        error = future.exception()
        left[0] -= 1
        if whole.done():
            return
        if error is not None:
            whole.set_exception(error)
        elif left[0] == 0:
            whole.set_result(None)

    for future in futures:
        future.add_done_callback(one)
    return whole


def then(future: concurrent.futures.Future, action: Callable) -> concurrent.futures.Future:
    """A future of action(), called when `future` is done well."""
    behind = concurrent.futures.Future()

    def finish(done):
        try:
            done.result()
            behind.set_result(action())
        except Exception as error:
            behind.set_exception(error)

    future.add_done_callback(finish)
    return behind


def to_torch(future: concurrent.futures.Future, result) -> torch.futures.Future:
    """A future of PyTorch with the value `result`; a failure is a RuntimeError with its text."""
    mirror = torch.futures.Future()

    def finish(done):
        error = done.exception()
        if error is None:
            mirror.set_result(result)
        else:
            mirror.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))

    future.add_done_callback(finish)
    return mirror


class Channel:
    """Operations among `members` (ranks of comm) in an order of their own: each carries the group's
    number and the next sequence, equal on all members if they make the same calls."""

    def __init__(self, comm: Comm, members: Sequence[int], group: int):
        self.comm, self.members, self.group = comm, list(members), group
        self.me = self.members.index(comm.rank)
        self.size = len(self.members)
        self.sequence = 0

    def next(self):
        self.sequence += 1
        return (self.group, self.sequence)

    def start(self, kind, floats, timeout, members=None, name=None, **options):
        if floats.numel() == 0:
            return settled()
        return self.comm.start(
            kind,
            floats.view(-1),
            members=self.members if members is None else members,
            name=name or self.next(),
            timeout=timeout,
            **options,
        )

    def reduce_floats(self, tensor, reduce, timeout):
        """In place, float32, contiguous."""
        return self.start("all_reduce", tensor, timeout, reduce=reduce)

    def broadcast(self, tensor, root, timeout):
        """tensor of any type from members[root] to all."""
        floats = as_floats(tensor)
        done = self.start("broadcast", floats, timeout, root=root, bits=True)
        return then(done, lambda: tensor.copy_(from_floats(floats, tensor)))

    def gather(self, tensor, timeout):
        """(future, list): every member's tensor, of equal shapes and types."""
        mine = as_floats(tensor)
        rows = torch.zeros(self.size, mine.numel())
        rows[self.me] = mine
        found: List[torch.Tensor] = []
        done = self.start("all_gather", rows, timeout, bits=True)
        return then(done, lambda: found.extend(from_floats(r, tensor) for r in rows)), found

    def pass_on(self, tensor, sender, receiver, tag, number, timeout):
        """From one member to another (both call it): a broadcast among two, whose name holds who,
        tag and number, so that it meets its like whatever else is under way."""
        floats = as_floats(tensor)
        pair = [self.members[sender], self.members[receiver]]
        group = key_of(f"{self.group} {sender} {receiver} {tag}")
        done = self.start("broadcast", floats, timeout, pair, (group, number), root=0, bits=True)
        if self.me == sender:
            return done
        return then(done, lambda: tensor.copy_(from_floats(floats, tensor)))


def seconds_of(options) -> Optional[float]:
    """The timeout of c10d's options; None: the communicator's."""
    timeout = getattr(options, "timeout", None)
    return timeout.total_seconds() if timeout is not None and timeout.total_seconds() > 0 else None
