# SPDX-License-Identifier: Apache-2.0
"""Operations of a process group on tensors of a device: each is the one on the CPU, on copies in
pinned memory (see _staging)."""

import functools
import sys

import torch

from . import _staging
from ._errors import EpochChanged
from .torch_work import FutureWork, settled


class DeviceWork(FutureWork):
    """A work whose future has an event: who waits gives its stream nothing before that."""

    def __init__(self, staging, done, result, limit=None, request=None):
        super().__init__(done, result, limit, request)
        self._staging = staging

    def wait(self, timeout=None):
        super().wait(timeout)
        self._staging.follow(self._done.result())
        return True

    def get_future(self):
        self._asked()
        return self._staging.mirror(self._done, self._result)


class _Sender:
    """Which receive from anybody a work stands for, once that has been started."""

    def __init__(self):
        self.request = None

    @property
    def sender(self):
        return self.request.sender


def _tensors(argument):
    """The tensors of an argument: one, a list, or a list of lists."""
    if isinstance(argument, torch.Tensor):
        return [argument]
    return [tensor for part in argument for tensor in _tensors(part)]


def _like(argument, copies):
    """The argument with its tensors replaced by the copies, in order."""
    if isinstance(argument, torch.Tensor):
        return next(copies)
    return [_like(part, copies) for part in argument]


def _sparse(group, method, arguments, rest):
    """Sparse tensors are copied at once, both ways, and waited for."""
    there = [_tensors(argument) for argument in arguments]
    here = [_like(a, iter([t.cpu() for t in ts])) for a, ts in zip(arguments, there)]
    method(group, *here, *rest).wait()
    for target, copy in zip(there[0], _tensors(here[0])):
        target.copy_(copy)
    return FutureWork(settled(), arguments[0])


_untraced = False


def untrace():
    """Keep torch.compile's tracer out of this package, once it is imported, as it is by
    DistributedDataParallel: in a compiled one it would try to look into a group's methods, and
    raise. PyTorch 2.3 and newer can be told."""
    global _untraced
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is not None and hasattr(rules, "add"):
        rules.add(__package__)
        _untraced = True


def staged(*flow):
    """A method of a process group also for tensors of a device. flow: of each leading argument
    with tensors, "both" (in place), "comes" (an output) or "goes" (an input)."""

    def decorate(method):
        @functools.wraps(method)
        def call(self, *arguments, **options):
            if not _untraced:
                untrace()
            ours, rest = arguments[: len(flow)], arguments[len(flow) :]
            tensors = [_tensors(argument) for argument in ours]
            staging = _staging.among([t for part in tensors for t in part])
            if staging is None:
                return method(self, *arguments, **options)
            if any(t.layout != torch.strided for part in tensors for t in part):
                return _sparse(self, method, ours, rest)
            return _travel(self, staging, method, flow, ours, tensors, rest, options)

        return call

    return decorate


def _travel(group, staging, method, flow, arguments, tensors, rest, options):
    channel, sender = group._channel, _Sender()
    ways = [(t, how != "comes", how != "goes") for how, ts in zip(flow, tensors) for t in ts]

    def operate(hosts):
        if group._channel is not channel:
            raise EpochChanged("members have changed since this operation was called")
        copies = iter([host.view(way[0].shape) for host, way in zip(hosts, ways)])
        work = method(group, *[_like(a, copies) for a in arguments], *rest, **options)
        sender.request = work._request
        return work._done

    done = staging.travel(ways, operate)
    return DeviceWork(staging, done, arguments[0], request=sender)
