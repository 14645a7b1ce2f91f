# SPDX-License-Identifier: Apache-2.0
"""Messages of a process group: send, receive from one member or from whoever sends first.

A message is two operations among two members, which carry its number: a head of one float and the
tensor. Who receives from anybody waits for a head of every member, and starts the tensor's
operation with the one whose head comes first. The other heads stay open until those members send:
their next message then meets the request that was made first and takes it, as MPI has it."""

import collections
import concurrent.futures
import threading

import torch

from ._errors import Error
from .torch_work import Channel

_NO_END = 10 * 365 * 86400.0  # a head may be asked for long before its message; requests have ends


class _Request:
    """A receive that has no message yet; sender None: from anybody."""

    def __init__(self, tensor, sender, timeout):
        self.tensor, self.sender, self.timeout = tensor, sender, timeout
        self.done = concurrent.futures.Future()


class Messages:
    """What a member of a channel has sent, and what it waits for, by member and tag."""

    def __init__(self, channel: Channel):
        self.channel = channel
        self._lock = threading.Lock()
        self._sent: collections.Counter = collections.Counter()
        self._met: collections.Counter = collections.Counter()
        self._requests: dict = collections.defaultdict(list)  # by tag, as they were made
        self._heads: dict = {}  # (sender, tag): number of the head that is waited for or has come
        self._come: set = set()  # the (sender, tag) whose head has come and met no request

    def _parts(self, tensor, sender, receiver, tag, number, timeout):
        """Both, from or to a known member; over when the tensor's is, which fails if the head's
        does. Of an empty tensor there is a head alone."""
        whole = self.channel.pass_on(tensor, sender, receiver, tag, number, timeout)
        head = torch.zeros(1)
        first = self.channel.pass_on(head, sender, receiver, f"head {tag}", number, timeout)
        return whole if tensor.numel() > 0 else first

    def send(self, tensor, receiver, tag, timeout) -> concurrent.futures.Future:
        with self._lock:
            self._sent[receiver, tag] += 1
            number = self._sent[receiver, tag]
        return self._parts(tensor, self.channel.me, receiver, tag, number, timeout)

    def receive(self, tensor, sender, tag, timeout) -> concurrent.futures.Future:
        """From one member. Where nobody waits for anybody, both parts start at once."""
        with self._lock:
            if (sender, tag) not in self._heads and not self._requests[tag]:
                self._met[sender, tag] += 1
                number = self._met[sender, tag]
            else:
                number, request = None, _Request(tensor, sender, timeout)
                self._requests[tag].append(request)
        if number is not None:
            return self._parts(tensor, sender, self.channel.me, tag, number, timeout)
        self._go_on(tag)
        return request.done

    def receive_any(self, tensor, tag, timeout) -> _Request:
        """From whoever sends first: the request's `done`, and then its `sender`."""
        request = _Request(tensor, None, timeout)
        with self._lock:
            self._requests[tag].append(request)
        self._go_on(tag)
        return request

    # ------------------------------------------------------------------ who gets which message

    def _go_on(self, tag):
        """Give heads that have come to the requests that were made first, and wait for those of
        members whose message somebody wants."""
        matched, wanted = [], []
        with self._lock:
            for request in list(self._requests[tag]):
                senders = self._others() if request.sender is None else [request.sender]
                sender = next((s for s in senders if (s, tag) in self._come), None)
                if sender is not None:
                    self._requests[tag].remove(request)
                    self._come.remove((sender, tag))
                    request.sender = sender
                    matched.append((request, self._heads.pop((sender, tag))))
            for sender in {s for r in self._requests[tag] for s in self._senders(r)}:
                if (sender, tag) not in self._heads:
                    self._met[sender, tag] += 1
                    self._heads[sender, tag] = self._met[sender, tag]
                    wanted.append((sender, self._met[sender, tag]))
        for request, number in matched:
            self._take(request, tag, number)
        for sender, number in wanted:
            self._await_head(sender, tag, number)

    def _others(self):
        return [member for member in range(self.channel.size) if member != self.channel.me]

    def _senders(self, request):
        return self._others() if request.sender is None else [request.sender]

    def _await_head(self, sender, tag, number):
        def come(done):
            error = done.exception()
            if error is not None:
                return self._fail(sender, tag, error)
            with self._lock:
                self._come.add((sender, tag))
            self._go_on(tag)

        head = torch.zeros(1)
        self.channel.pass_on(
            head, sender, self.channel.me, f"head {tag}", number, _NO_END
        ).add_done_callback(come)

    def _take(self, request, tag, number):
        def taken(done):
            error = done.exception()
            if error is None:
                request.done.set_result(None)
            else:
                request.done.set_exception(error)

        me, sender = self.channel.me, request.sender
        self.channel.pass_on(
            request.tensor, sender, me, tag, number, request.timeout
        ).add_done_callback(taken)

    def _fail(self, sender, tag, error):
        """Without this member no request that could be its own can be kept apart from an end."""
        with self._lock:
            self._heads.pop((sender, tag), None)
            lost = [r for r in self._requests[tag] if r.sender in (None, sender)]
            for request in lost:
                self._requests[tag].remove(request)
        for request in lost:
            request.done.set_exception(error)


def monitored_barrier(channel: Channel, seconds: float, all_ranks: bool) -> None:
    """Return when all members have come. Member 0 waits for a word of each and names those that
    say none; it tells who has come, so that they need not wait for their own end. The texts are
    Gloo's, as programs look for them."""
    number = channel.next()[1]
    limit = f"{int(seconds * 1000)} ms"

    def word(tensor, sender, receiver, way, timeout=seconds):
        return channel.pass_on(tensor, sender, receiver, f"monitored {way}", number, timeout)

    if channel.me == 0:
        if int(seconds * 1000) <= 0:
            raise RuntimeError(f"Rank 0 timed out in monitoredBarrier after {limit}")
        return _watch(channel, word, limit, all_ranks)
    missing = torch.zeros(channel.size)
    try:
        word(torch.zeros(1), channel.me, 0, "here").result()
        word(missing, 0, channel.me, "go", 2 * seconds).result()  # 0's own wait may begin later
        reason = f"missing there: {missing.nonzero().view(-1).tolist()}"
    except Error as error:
        missing[0], reason = 1, f"{type(error).__name__}: {error}"
    if missing.any():
        raise RuntimeError(
            f"Rank {channel.me} successfully reached monitoredBarrier, but received errors while"
            " waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank."
            f" ({reason})"
        )


def _watch(channel, word, limit, all_ranks):
    """What member 0 does in a monitored barrier."""
    others = range(1, channel.size)
    here = {member: word(torch.zeros(1), member, 0, "here") for member in others}
    errors = {m: f.exception() for m, f in here.items() if f.exception() is not None}
    missing = torch.zeros(channel.size)
    missing[list(errors)] = 1
    told = [word(missing, 0, member, "go") for member in others if member not in errors]
    for future in told:
        future.exception()  # who dies now has come
    if not errors:
        return
    who = sorted(errors) if all_ranks else [min(errors)]
    names = ("Ranks " if len(who) > 1 else "Rank ") + ", ".join(map(str, who))
    reason = f"{type(errors[who[0]]).__name__}: {errors[who[0]]}"
    raise RuntimeError(f"{names} failed to pass monitoredBarrier in {limit} ({reason})")
