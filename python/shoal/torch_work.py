# SPDX-License-Identifier: Apache-2.0
"""What a process group is made of: a communicator's operations among some ranks on tensors of any
type, as futures of PyTorch."""

import concurrent.futures
from typing import Callable, List, Optional, Sequence

import torch
from torch._C._distributed_c10d import Work

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
    if floats.storage_offset() * 4 % like.element_size() != 0:  # a row of a larger tensor
        floats = floats.clone()
    raw = floats.view(torch.uint8)
    if like.dtype == torch.bool:
        return raw[: like.numel()].to(torch.bool).view(like.shape)
    return raw[: like.numel() * like.element_size()].view(like.dtype).view(like.shape)


def settled(value=None) -> concurrent.futures.Future:
    """A future that is done."""
    future: concurrent.futures.Future = concurrent.futures.Future()
    future.set_result(value)
    return future


def all_of(futures: Sequence[concurrent.futures.Future]) -> concurrent.futures.Future:
    """Done when all are; fails with the first failure."""
    if not futures:
        return settled()
    whole: concurrent.futures.Future = concurrent.futures.Future()
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
    behind: concurrent.futures.Future = concurrent.futures.Future()

    def finish(done):
        try:
            done.result()
            behind.set_result(action())
        except Exception as error:
            behind.set_exception(error)

    future.add_done_callback(finish)
    return behind


def chain(future: concurrent.futures.Future, action: Callable) -> concurrent.futures.Future:
    """A future of the future that action() gives, called when `future` is done well."""
    behind: concurrent.futures.Future = concurrent.futures.Future()

    def copy(done):
        error = done.exception()
        if error is None:
            behind.set_result(done.result())
        else:
            behind.set_exception(error)

    def go_on(done):
        try:
            done.result()
            action().add_done_callback(copy)
        except Exception as error:
            behind.set_exception(error)

    future.add_done_callback(go_on)
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


class FutureWork(Work):
    """A future as c10d's work. PyTorch's own (_create_work_from_future) waits for a failed future
    and then says nothing, so that what a collective did not sum would pass for its sum.

    request: of a receive from anybody, whose sender it tells. limit: how long wait() waits where
    nothing else ends it."""

    def __init__(self, future, result, limit=None, request=None):
        super().__init__()
        self._done, self._result, self._limit, self._request = future, result, limit, request
        _unasked[id(self)] = self
        if len(_unasked) > _UNASKED_MAX:
            _unasked.pop(next(iter(_unasked)), None)

    def _asked(self):
        _unasked.pop(id(self), None)

    def wait(self, timeout=None):
        self._asked()
        given = timeout.total_seconds() if timeout is not None else 0
        limit = given if given > 0 else self._limit
        try:
            self._done.result(limit)
        except concurrent.futures.TimeoutError as error:
            if self._done.done():  # it is the operation's own, in words that programs look for
                text = f"{type(error).__name__}: Timed out waiting: {error}"
                raise RuntimeError(text) from error
            what = "nobody has sent" if self._request else "the operation is not over"
            raise RuntimeError(f"shoal: {what} within {limit:g} s") from None
        except Exception as error:
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        return self._done.done()

    def is_success(self):
        return self._done.done() and self._done.exception() is None

    def exception(self):
        return self._done.exception() if self._done.done() else None

    def get_future(self):
        self._asked()
        return to_torch(self._done, self._result)

    def result(self):
        self.wait()
        return self._result

    def _source_rank(self):
        if self._request is None:
            raise RuntimeError("shoal: only a receive from anybody has a source to tell")
        return self._request.sender

    source_rank = _source_rank


# C++ that holds a work finds its methods only as long as its Python object lives: these are the
# newest that nobody has waited for.
_unasked: dict = {}
_UNASKED_MAX = 4096


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

    def gather(self, tensor, timeout, name=None):
        """(future, list): every member's tensor, of equal shapes and types."""
        mine = as_floats(tensor)
        rows = torch.zeros(self.size, mine.numel())
        rows[self.me] = mine
        found: List[torch.Tensor] = []
        done = self.start("all_gather", rows, timeout, name=name, bits=True)
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
