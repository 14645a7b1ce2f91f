# SPDX-License-Identifier: Apache-2.0
"""Several devices per host: PyTorch's own group (NCCL) inside a host, Shoal between hosts.

Of each host the lowest rank leads. A bucket's way:

    all          reduce to the leader, by the group inside
    leaders      all-reduce through Shoal, coded
    leader       a word to its host by Shoal: it worked, or it did not
    all          broadcast from the leader, by the group inside

All ranks of a host start what their group does in one order: the reductions as buckets become
full, and behind the last one the broadcasts."""

import os
import socket
import threading
from typing import List

import torch
import torch.distributed as dist

from . import _staging
from ._comm import key_of
from ._errors import NotSupported, PeerLost
from .torch_ddp import Hook


def host_name() -> str:
    """What ranks of one host have in common: torchrun's number of the node, or the host's name."""
    return os.environ.get("GROUP_RANK") or socket.gethostname()


class Host:
    """Who is on this host, and who leads where. Made by all ranks together. leaders: of all hosts,
    in order; members: of this one; group: PyTorch's, of those."""

    def __init__(self, backend: str):
        names: List = [None] * dist.get_world_size()
        dist.all_gather_object(names, (host_name(), backend))
        if len({kind for _, kind in names}) > 1:
            raise ValueError(f"inside= has to be the same on all ranks, not {names}")
        hosts: dict = {}
        for rank, (name, _) in enumerate(names):
            hosts.setdefault(name, []).append(rank)
        self.members = hosts[names[dist.get_rank()][0]]
        self.leaders = [ranks[0] for ranks in hosts.values()]
        self.leader, self.leads = self.members[0], self.members[0] == dist.get_rank()
        try:
            groups = [dist.new_group(ranks, backend=backend) for ranks in hosts.values()]
        except (RuntimeError, ValueError, AttributeError) as error:
            raise NotSupported(f"inside={backend!r}: {error}") from error
        self.group = groups[self.leaders.index(self.leader)]


class _Way:
    """A bucket between its reduction and its broadcast."""

    def __init__(self, buffer, done):
        self.buffer, self.done, self.told, self.event = buffer, done, False, None


class InsideHook(Hook):
    """The hook of shoal.ddp(..., inside="nccl")."""

    def __init__(self, module, comm, codec, collective, backend):
        super().__init__(module, comm, codec, collective)
        self.host = Host(backend)
        self._word = key_of(f"word {self.group} {self.host.leader}")
        self._lock = threading.Lock()
        self._ways, self._complete = [], False  # of this step; whether all are there

    def start(self, bucket) -> torch.futures.Future:
        buffer = bucket.buffer()
        if buffer.is_sparse:  # few entries: straight through Shoal, among all
            return super().start(bucket)
        staging = _staging.of(buffer)
        done = torch.futures.Future() if staging is None else staging.device.future()
        try:
            self.sequence += 4
            name = (self._word, self.sequence)
            way, between = _Way(buffer, done), self._sum(bucket, self.host.leaders)
            work = dist.reduce(buffer, self.host.leader, group=self.host.group, async_op=True)
            with self._lock:
                self._ways.append(way)
                self._complete = self._complete or bucket.is_last()
            reduced = work.get_future()
            reduced.add_done_callback(lambda f: self._reduced(f, staging, way, between, name))
        except Exception as error:  # raising here would wedge DDP for ever
            self.fail(done, error)
        return done

    def _reduced(self, reduced, staging, way, between, name):
        try:
            reduced.wait()
            if not self.host.leads:
                return self._hear(way, name)
            operation = self._exchange(staging, way.buffer, between)
        except Exception as error:
            return self._tell(way, name, None, error)
        operation.add_done_callback(lambda over: self._tell(way, name, over, over.exception()))

    def _exchange(self, staging, buffer, between):
        """The leaders' sum, and the mean of all ranks, in buffer: a future."""
        count = self.comm.world_size
        if staging is not None:
            return staging.float32(buffer, between, _staging.mean(count))
        flat = buffer if buffer.dtype == torch.float32 else buffer.float()

        def finish(over):
            if over.exception() is None:
                flat.div_(count)
                if flat is not buffer:
                    buffer.copy_(flat)

        operation = between(flat)
        operation.add_done_callback(finish)
        return operation

    # ------------------------------------------------------------------ the leader's word

    def _tell(self, way, name, operation, error):
        """Whether the sum is there, to the other ranks of this host."""
        event = operation.result() if error is None else None  # of staging, if the buffer is staged
        word = torch.full((1,), 0.0 if error is None else 1.0)
        others = self.host.members

        def told(over=None):  # not before: whoever gives up may end, and the word with it
            if error is not None:
                return self._give_up(way, error)
            self._ready(way, event, over)

        if len(others) == 1:
            return told()
        try:
            self.comm.start(
                "broadcast", word, members=others, name=name, bits=True
            ).add_done_callback(told)
        except Exception as failure:
            self._give_up(way, error or failure)

    def _hear(self, way, name):
        word = torch.zeros(1)
        heard = self.comm.start(
            "broadcast", word, members=self.host.members, name=name, bits=True
        )

        def come(over):
            if over.exception() is None and word[0] != 0:
                text = f"rank {self.host.leader}, which leads this host, could not finish the sum"
                return self._give_up(way, self.comm.failure or PeerLost(text))
            self._ready(way, None, over)

        heard.add_done_callback(come)

    # ------------------------------------------------------------------ the way back

    def _ready(self, way, event, over=None):
        """Broadcasts start in the order of the buckets, behind the step's last reduction."""
        if over is not None and over.exception() is not None:
            return self._give_up(way, over.exception())
        way.told, way.event = True, event
        with self._lock:
            if not self._complete or not all(w.told for w in self._ways):
                return
            ways, self._ways, self._complete = self._ways, [], False
        for one in ways:
            try:
                self._spread(one)
            except Exception as error:
                self.fail(one.done, error)

    def _spread(self, way):
        def come(over):
            try:
                over.wait()
                way.done.set_result(way.buffer)
            except Exception as error:
                self.fail(way.done, error)

        staging = _staging.of(way.buffer)
        if staging is not None and self.host.leads:
            staging.follow(way.event)
        work = dist.broadcast(way.buffer, self.host.leader, group=self.host.group, async_op=True)
        work.get_future().add_done_callback(come)

    def _give_up(self, way, error):
        """This step is lost: no bucket of it will be sent back."""
        with self._lock:
            ways, self._ways, self._complete = self._ways, [], False
        for one in {*ways, way}:
            if not one.done.done():
                self.fail(one.done, error)


def check(inside, on_loss) -> None:
    """Whether there can be such a group inside: ValueError, NotSupported."""
    if on_loss == "reform":
        raise ValueError("inside= has fixed members: it cannot be had with on_loss='reform'")
    if not dist.is_backend_available(inside) if hasattr(dist, "is_backend_available") else False:
        raise NotSupported(f"inside={inside!r}: this PyTorch has no such backend")
    if inside == "nccl" and not torch.cuda.is_available():
        raise NotSupported("inside='nccl': PyTorch finds no CUDA device")
