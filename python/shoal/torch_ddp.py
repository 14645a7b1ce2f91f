# SPDX-License-Identifier: Apache-2.0
"""Shoal behind PyTorch's DistributedDataParallel: a communication hook."""

import itertools
import weakref
from typing import Any, Optional

import torch
import torch.distributed as dist

from . import _abi, _staging, torch_device, torch_process_group
from ._comm import Comm, Tensor, key_of
from ._errors import EpochChanged
from ._library import dll
from .codec import Codec
from .torch_sparse import SparseExchange

_hooks = itertools.count()


def describe(parameters, last=frozenset()):
    """{id of parameter: (key, rows, cols, flags)} of (name, parameter) pairs; `last`: ids of the
    last layer's."""
    found = {}
    for name, p in parameters:
        rows, cols = (p.shape[0], p[0].numel()) if p.dim() >= 2 else (0, 0)
        flags = 0 if p.dim() >= 2 else _abi.SHOAL_TENSOR_BIAS
        if id(p) in last:
            flags |= _abi.SHOAL_TENSOR_LAST
        found[id(p)] = (key_of(name), rows, cols, flags)
    return found


def describe_model(module):
    """describe() of a module: its last layer is the last matrix and what follows it."""
    named = list(module.named_parameters())
    matrices = [i for i, (_, p) in enumerate(named) if p.dim() >= 2]
    first_of_last = matrices[-1] if matrices else len(named)
    return describe(named, frozenset(id(p) for _, p in named[first_of_last:]))


def table(parameters, facts):
    """The tensor table of a flat buffer that holds these parameters' gradients in this order."""
    rows, offset = [], 0
    for p in parameters:
        key, n_rows, n_cols, flags = facts[id(p)]
        rows.append(Tensor(key, offset, p.numel(), n_rows, n_cols, flags))
        offset += p.numel()
    return rows


class Hook:
    """State of a registered hook: communicator, codec, and what is known of the parameters."""

    def __init__(self, module, comm: Comm, codec: Optional[str], collective: Optional[str]):
        dll.shoal_codec_carried((codec or "identity").encode(), (collective or "ring").encode())
        if codec is not None and "local" in Codec(codec).traits:
            raise ValueError(
                f"codec={codec!r} lets workers step apart, and of torch's optimizers none knows "
                "when they meet: leave local= out."
            )
        self.comm, self.codec, self.collective = comm, codec, collective
        self.facts = describe_model(module)
        # Operations have names, so that what is started from a callback cannot change their order.
        self.group = key_of(f"ddp {next(_hooks)}")
        self.sequence, self.epoch = 0, 0
        self.error = None  # the first failure, with its rank, host and reason
        comm._after_reform.append(weakref.WeakMethod(self.renew))
        torch_device.untrace()

    def renew(self):
        """Another epoch: all members count from the same number again, newcomers too."""
        self.sequence, self.error = 0, None
        self.epoch += 1

    def start(self, bucket) -> torch.futures.Future:
        done = torch.futures.Future()
        buffer = bucket.buffer()
        try:
            self.sequence += 4
            staging = _staging.of(buffer)
            if staging is not None:
                return self._staged(staging, bucket, buffer)
            if buffer.is_sparse:
                self._sparse(buffer.coalesce(), done)
            else:
                self._dense(bucket, buffer, done)
        except Exception as error:  # raising here would wedge DDP for ever
            self.fail(done, error)
        return done

    def fail(self, done, error):
        self.error = self.error or error
        done.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))

    def _then(self, operation, done, go_on):
        """Call go_on() when the operation is over; its failure and go_on's own end in `done`."""

        def finish(operation):
            try:
                operation.result()
                go_on()
            except Exception as error:
                self.fail(done, error)

        operation.add_done_callback(finish)

    def _sum(self, bucket, members=None):
        """The bucket's operation, as a function of float32[count]; its name is taken now."""
        rows, label = table(bucket.parameters(), self.facts), f"gradients {bucket.index()}"
        name, epoch = (self.group, self.sequence), self.epoch

        def start(flat):
            if self.epoch != epoch:
                raise EpochChanged("members have changed since this bucket was full")
            return self.comm.start(
                "all_reduce",
                flat,
                codec=self.codec,
                collective=self.collective,
                tensors=rows,
                label=label,
                name=name,
                members=members,
            )

        return start

    def _dense(self, bucket, buffer, done):
        flat = buffer if buffer.dtype == torch.float32 else buffer.float()

        def finish():
            flat.div_(self.comm.world_size)
            done.set_result(buffer if flat is buffer else buffer.copy_(flat))

        self._then(self._sum(bucket)(flat), done, finish)

    def _staged(self, staging, bucket, buffer):
        """A future of a bucket on a device, which carries the stream that brings it back."""
        if buffer.is_sparse:
            return self._sparse_staged(staging, buffer.coalesce())
        count = self.comm.world_size
        done = staging.float32(
            buffer,
            self._sum(bucket),
            _staging.mean(count),
            (self.group, bucket.index()),
            2,
        )
        done.add_done_callback(self._note)
        return staging.mirror(done, buffer)

    def _sparse_staged(self, staging, gradient):
        """Its entries are few: they are copied at once, both ways."""
        name, device = (self.group, self.sequence), staging.device
        future, exchange = device.future(), SparseExchange(self.comm, gradient.cpu(), name)

        def finish():
            mean = exchange.result.result().to(gradient.device)
            device.finish(future, mean, staging.back)

        self._then(exchange.result, future, finish)
        return future

    def _note(self, done):
        self.error = self.error or done.exception()

    def _sparse(self, gradient, done):
        exchange = SparseExchange(self.comm, gradient, (self.group, self.sequence))
        self._then(exchange.result, done, lambda: done.set_result(exchange.result.result()))


def _hook(state: Hook, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    return state.start(bucket)


def comm_hook(
    model: torch.nn.Module,
    codec: Optional[str] = None,
    collective: Optional[str] = None,
    comm: Optional[Comm] = None,
):
    """(state, hook) for who registers hooks by hand:

    model.register_comm_hook(*shoal.comm_hook(model, codec="eden:bits=2,ef"))

    model: the DistributedDataParallel module; codec, collective: specs; comm: this job's, if None.
    shoal.ddp(model) does the same."""
    comm = comm or torch_process_group.default_comm()
    return Hook(getattr(model, "module", model), comm, codec, collective), _hook


def _elastic(model, comm, options):
    """DistributedDataParallel made by each rank for itself, so that one that comes later finds the
    same buckets: those of unused parameters are never arranged anew."""
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise TypeError("on_loss='reform' wraps the module itself: give it the plain one")
    if not dist.is_initialized():
        torch_process_group.initialise_elastic(comm)
    options = {"find_unused_parameters": True, **options}
    model = torch.nn.parallel.DistributedDataParallel(model, **options)
    torch_process_group.follow(comm)
    return model


def ddp(
    model: torch.nn.Module,
    codec: Optional[str] = None,
    collective: Optional[str] = None,
    comm: Optional[Comm] = None,
    on_loss: str = "stop",
    inside: Optional[str] = None,
    **options,
):
    """Average a model's gradients through Shoal.

    model: a DistributedDataParallel module, which gets Shoal's communication hook; or a plain one,
    which is wrapped in it first (with options), in a process group "shoal" if there is none. codec,
    collective: specs ("eden:bits=2,ef", "ring"); None: float32 on the ring. Gradients may be
    float32, float64, half (summed in float32) or sparse (gathered as they are, without codec), on
    the CPU or on a CUDA device, from where they travel through pinned memory (docs/python.md).

    Returns the DistributedDataParallel module. A failure is raised by backward() on every rank that
    is left, as a RuntimeError whose text names rank, host and reason; module.shoal.error has it as
    an exception of Shoal's. Source: PyTorch's contract of DDP communication hooks.

    inside="nccl": ranks of one host (torchrun's node, else the host's name) sum by a group of
    PyTorch's of this backend, and one rank of each host goes on through Shoal.

    on_loss="reform": members may change; give the module to shoal.elastic(), which goes on without
    ranks that are lost and takes in new ones. The module has to be a plain one then."""
    inner = inside is not None
    if inner:
        from . import torch_inside

        torch_inside.check(inside, on_loss)
    comm = comm or torch_process_group.default_comm(on_loss)
    if on_loss == "reform":
        model = _elastic(model, comm, options)
    elif not isinstance(model, torch.nn.parallel.DistributedDataParallel):
        if not dist.is_initialized():
            torch_process_group.initialise(comm)
        model = torch.nn.parallel.DistributedDataParallel(model, **options)
    elif options:
        raise TypeError("options are DistributedDataParallel's: give them where it was made")
    if inner:
        hook: Any = torch_inside.InsideHook(model.module, comm, codec, collective, inside)
    else:
        hook = Hook(model.module, comm, codec, collective)
    model.register_comm_hook(hook, _hook)
    model.shoal = hook
    return model
