# SPDX-License-Identifier: Apache-2.0
"""Training that goes on when ranks are lost, and takes in new ones.

What a rank does between two steps:

    in a step       an exception about members, or somebody wants to reform
    reforming       all that are there agree on the next epoch (Comm.reform)
    taking state    who is behind takes everything from the first that is furthest
    in a step       the same one again; the next one for who was behind"""

import functools
import io
import types
from typing import Optional

import torch

from . import torch_process_group
from ._comm import MEMBERSHIP, Comm, key_of
from ._errors import PeerLost
from .torch_work import Channel


class Elastic:
    """What elastic() makes of its objects and timeout.

    Attributes: step (updates done, the same on all ranks), since (the step with which the present
    members began), comm, reforms (how often this rank saw members change),
    error (the exception that ended the last step that was not finished, or None).
    """

    def __init__(self, objects, comm: Comm, timeout: Optional[float]):
        if not comm.reforms:
            raise ValueError("members are fixed: say on_loss='reform' to shoal.ddp or shoal.wrap")
        optimizers = [thing for thing in objects if hasattr(thing, "param_groups")]
        if not optimizers:
            raise TypeError("shoal.elastic counts steps by an optimizer: give it one")
        self.objects, self.comm, self.timeout = objects, comm, timeout
        self.step, self.since, self.reforms, self.error = 0, 0, 0, None
        self._count(optimizers[-1])
        view = comm.view()
        # Nothing here is worth anything to others: it waits for the state of one that has it.
        self._torn = view.epoch > 0
        if view.epoch > 0:
            self._resume(view.done_rank)
        else:
            self._resume(0, behind=comm.rank != 0)

    def _count(self, optimizer):
        name = "_step_alone" if hasattr(optimizer, "_step_alone") else "step"
        update = getattr(optimizer, name)

        @functools.wraps(update)  # with the marks that schedulers leave on it
        def counted(this, *args, **options):
            result = update(*args, **options)
            self.step += 1
            return result

        setattr(optimizer, name, types.MethodType(counted, optimizer))

    # ------------------------------------------------------------------ around a step

    def __enter__(self):
        if self.comm.reform_wanted():
            self._reform()
        return self

    def __exit__(self, kind, error, traceback):
        if error is None:
            return False
        if not isinstance(error, MEMBERSHIP):
            # DistributedDataParallel's is a RuntimeError; which one it stands for, comm knows.
            if not isinstance(error, RuntimeError) or self.comm.failure is None:
                return False
            error = self.comm.failure
        self.error = error
        self._reform()
        return True

    # ------------------------------------------------------------------ other members

    def _reform(self):
        while True:
            for thing in self._protocols():
                thing.close()
            done = 0 if self._torn else self.step + 1
            view = self.comm.reform(done, self.timeout)
            self.reforms += 1
            if view.done_max == 0:
                raise PeerLost(
                    "all ranks that had the training's state are lost: load a checkpoint"
                )
            try:
                return self._resume(view.done_rank, behind=done < view.done_max)
            except MEMBERSHIP as another:  # one more was lost meanwhile
                self.error = another

    def _protocols(self):
        parts = (getattr(thing, "shoal", None) for thing in self.objects)
        return [part for part in parts if hasattr(part, "begin")]

    def _resume(self, source, behind=True):
        self._take_state(source, behind)
        self.since = self.step
        for protocol in self._protocols():
            protocol.iteration = self.step
            protocol.begin()

    def _take_state(self, source, behind):
        flags = torch.zeros(self.comm.world_size)
        flags[self.comm.rank] = behind
        self.comm.allreduce(flags)
        members = [source] + [i for i, late in enumerate(flags) if late and i != source]
        if len(members) > 1 and self.comm.rank in members:
            self._torn = self._torn or behind
            self._move(Channel(self.comm, members, key_of("elastic")))
        self._torn = False

    def _move(self, channel):
        """Everything from members[0] to the others."""
        size = torch.zeros(1, dtype=torch.int64)
        if channel.me == 0:
            blob = self._save()
            size[0] = blob.numel()
        channel.broadcast(size, 0, None).result()
        if channel.me != 0:
            blob = torch.empty(int(size), dtype=torch.uint8)
        channel.broadcast(blob, 0, None).result()
        if channel.me != 0:
            self._load(blob)

    def _save(self):
        out = io.BytesIO()
        states = [thing.state_dict() for thing in self.objects]
        torch.save({"step": self.step, "states": states}, out)
        return torch.frombuffer(bytearray(out.getvalue()), dtype=torch.uint8)

    def _load(self, blob):
        # A pickle, as schedulers have more than tensors; its sender has proven the job's token.
        found = torch.load(
            io.BytesIO(blob.numpy().tobytes()), map_location="cpu", weights_only=False
        )
        for thing, state in zip(self.objects, found["states"]):
            thing.load_state_dict(state)
        self.step = found["step"]


def elastic(*objects, comm: Optional[Comm] = None, timeout: Optional[float] = None) -> Elastic:
    """Go on without ranks that are lost, and take in new ones.

        model = shoal.ddp(model, on_loss="reform")     # or shoal.wrap(optimizer, on_loss="reform")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        job = shoal.elastic(model, optimizer)
        while job.step < 1000:
            with job:                                   # one update; perhaps not finished
                x, y = batch(job.step, shoal.rank(), shoal.world_size())
                optimizer.zero_grad()
                loss_of(model(x), y).backward()
                optimizer.step()

    objects: model, optimizer and whatever else has state_dict() and load_state_dict(), made of
    tensors and plain values, in the same order on all ranks. At the start all take rank 0's state;
    a process that comes later takes that of one that is furthest. In the block a loss of members
    ends the step; the others reform within timeout seconds (60), and the block's end passes the
    exception over: job.error has it. Whatever else is raised goes through. Rank and world size may
    be others after each block, so that batches have to be chosen inside; nothing else may
    communicate outside of blocks.

    Raises PeerLost if this rank belongs to a minority that is cut off, or nobody has the state."""
    return Elastic(objects, comm or torch_process_group.default_comm("reform"), timeout)
