# SPDX-License-Identifier: Apache-2.0
"""Synchronisation protocols behind optimizer.step(): `shoal.wrap(optimizer, sync="diloco")`."""

import ctypes as C
import weakref
from typing import Optional

import torch

from . import _abi, _staging, job, torch_process_group
from ._comm import Comm
from ._errors import EpochChanged
from ._library import dll, struct
from .codec import Codec
from .torch_ddp import describe, table

_FIELDS = ("wait_us", "comm_us", "sent_payload_bytes", "received_payload_bytes", "operations")


class Synchroniser:
    """What wrap() keeps in optimizer.shoal: flat parameters and gradients, and the protocol.

    Attributes: iteration (of the next step; protocols may leave some out), stopped (peers are done:
    leave the training loop), skipped (the last step had values that are not finite)."""

    def __init__(self, optimizer, comm: Comm, specs, names):
        self.comm, self.iteration, self.stopped, self.skipped = comm, 0, False, False
        self.sync, self.collective, self.codec = specs
        self.parameters = [p for g in optimizer.param_groups for p in g["params"]]
        self._flatten()
        self.facts = self._facts(optimizer, names)
        self._handle = C.c_void_p()
        comm._before_close.append(weakref.WeakMethod(self.close))
        if not comm.reforms:
            comm.broadcast(self.flat)  # all start from rank 0's parameters
            self.give_parameters()
            self.begin(fresh=True)

    def begin(self, fresh=False):
        """Start the protocol; a collective call. Parameters are the same on all ranks; fresh: the
        buffer has them."""
        if not fresh:
            self.take_parameters()
        rows = table(self.parameters, self.facts)
        tensors = (_abi.shoal_tensor * len(rows))()
        for tensor, row in zip(tensors, rows):
            tensor.key, tensor.offset, tensor.count = row.key, row.offset, row.count
            tensor.rows, tensor.cols, tensor.flags = row.rows, row.cols, row.flags
            tensor.lr_scale = 1.0
        desc = struct(
            _abi.shoal_sync_desc,
            sync=self.sync,
            collective=self.collective,
            codec=self.codec,
            params=self.flat.data_ptr(),
            grads=self.grads.data_ptr(),
            count=self.flat.numel(),
            tensors=tensors,
            tensor_count=len(rows),
            iteration=self.iteration,
        )
        dll.shoal_sync_create(self.comm._usable(), C.byref(desc), C.byref(self._handle))

    def _flatten(self):
        """Parameters become views of one buffer, and their gradients of another; those on a device
        or of a half type stay as they are, and the buffers have copies."""
        kinds = {p.dtype for p in self.parameters}
        for dtype in kinds - {torch.float32, torch.float16, torch.bfloat16}:
            raise TypeError(f"shoal.wrap takes float32, float16 and bfloat16, not {dtype}")
        self.staging = _staging.among(self.parameters)
        count = sum(p.numel() for p in self.parameters)
        self.flat, self.grads = torch.empty(count), torch.zeros(count)
        self.mirrored = self.staging is not None or kinds != {torch.float32}
        if self.mirrored:
            # One copy over the bus: all of one type, or float32 beside half types.
            self.kind = kinds.pop() if len(kinds) == 1 else torch.float32
            self.views = None
            return self.take_parameters()
        self.views, at = [], 0
        for p in self.parameters:
            place = self.flat[at : at + p.numel()]
            place.copy_(p.detach().reshape(-1))
            p.data = place.view(p.shape)
            self.views.append(self.grads[at : at + p.numel()].view(p.shape))
            at += p.numel()

    # ------------------------------------------------------------------ parameters elsewhere

    def _take(self, target, tensors):
        """Tensors in the order of the parameters to a buffer of the host."""
        whole = torch.cat([t.detach().reshape(-1).to(self.kind) for t in tensors])
        if self.staging is None:
            target.copy_(whole)
        else:
            self.staging.fetch(target, whole, "wrap")

    @torch.no_grad()
    def _give(self, source, tensors):
        """The opposite."""
        whole = torch.empty(source.numel(), dtype=self.kind, device=self.parameters[0].device)
        if self.staging is None:
            whole.copy_(source)
        else:
            self.staging.put(whole, source, "wrap")
        for t, part in zip(tensors, whole.split([t.numel() for t in tensors])):
            t.copy_(part.view(t.shape))

    def take_parameters(self):
        """What the optimizer or a checkpoint has made of them."""
        if self.mirrored:
            self._take(self.flat, self.parameters)

    def give_parameters(self):
        """What the protocol has made of them."""
        if self.mirrored:
            self._give(self.flat, self.parameters)

    def _take_gradients(self):
        for p in self.parameters:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            elif p.grad.is_sparse:
                p.grad = p.grad.to_dense()
        self._take(self.grads, [p.grad for p in self.parameters])

    def _facts(self, optimizer, names):
        if names is None:
            groups = enumerate(optimizer.param_groups)
            pairs = [(f"{g}.{i}", p) for g, rest in groups for i, p in enumerate(rest["params"])]
        else:
            known = {id(p): name for name, p in names}
            pairs = [(known[id(p)], p) for p in self.parameters]
        return describe(pairs)

    def collect(self):
        """Gradients to where the protocol sees them; autograd adds to the views from then on."""
        if self.mirrored:
            return self._take_gradients()
        for p, view in zip(self.parameters, self.views):
            if p.grad is None:
                view.zero_()
            elif p.grad.data_ptr() != view.data_ptr():
                view.copy_(p.grad.to_dense() if p.grad.is_sparse else p.grad)
            p.grad = view

    def before_update(self):
        verdict = _abi.shoal_verdict()
        dll.shoal_sync_before_update(self._usable(), C.byref(verdict))
        if verdict.stop and self.comm.reforms:  # nothing was exchanged: no step was made
            raise EpochChanged("a rank goes over to reform")
        self.skipped = verdict.skipped
        if verdict.apply and verdict.grad_scale != 1.0:
            self.grads.mul_(verdict.grad_scale)
        if self.mirrored and verdict.apply:
            self._give(self.grads, [p.grad for p in self.parameters])
            self.give_parameters()  # protocols mix them before the update, too
        return verdict.apply

    def after_update(self, updated):
        """updated: the optimizer has run; else the protocol has."""
        if updated:
            self.take_parameters()
        verdict = _abi.shoal_verdict()
        dll.shoal_sync_after_update(self._usable(), C.byref(verdict))
        self.give_parameters()
        self.iteration, self.stopped = verdict.iteration, verdict.stop

    def _usable(self):
        if not self._handle:
            raise ValueError(
                "the protocol has ended (optimizer.finish() or shoal.close() was called), or not "
                "begun: with on_loss='reform' shoal.elastic() begins it"
            )
        return self._handle

    def stats(self) -> dict:
        """Time and traffic of the last step."""
        found = struct(_abi.shoal_sync_stats)
        dll.shoal_sync_last_stats(self._usable(), C.byref(found))
        return {name: getattr(found, name) for name in _FIELDS}

    def finish(self):
        """Wait until the parameters are the job's result: their exact mean with protocols whose
        replicas differ. The protocol ends with it."""
        dll.shoal_sync_finish(self._usable())
        self.give_parameters()
        self.close()

    def close(self):
        """End the protocol without a final mean; peers are told."""
        handle, self._handle = self._handle, C.c_void_p()
        if handle:
            dll.shoal_sync_destroy(handle)


class _Wrapped:
    """Methods that a wrapped optimizer has instead of its class's."""

    def step(self, closure=None):
        """One step of the protocol: exchange, update if this worker is to apply it, and wait until
        the next iteration may start. Returns the closure's loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        shoal = self.shoal
        shoal.collect()
        apply = shoal.before_update()
        if apply:
            self._step_alone()
        shoal.after_update(apply)
        return loss

    def zero_grad(self, set_to_none=False):
        """Gradients stay where the protocol sees them, so they are set to zero, never to None."""
        if self.shoal.mirrored:
            return self._zero_alone(set_to_none=set_to_none)
        for p, view in zip(self.shoal.parameters, self.shoal.views):
            p.grad = view
        self.shoal.grads.zero_()

    def finish(self):
        """After the last step; see Synchroniser.finish."""
        self.shoal.finish()


def _makes_steps_alone(optimizer, codec):
    """A codec that makes the step itself (demo) leaves no room for another momentum; one whose
    workers step apart (onebit:local) needs an optimizer that knows when they meet."""
    if codec is None or codec.split(":")[0] == "auto":
        return
    traits = Codec(codec).traits
    if "local" in traits:
        raise ValueError(
            f"shoal.wrap: codec={codec!r} lets workers step apart, and of torch's optimizers none "
            "knows when they meet: leave local= out, or take sync='local_sgd'."
        )
    if "steps" not in traits:
        return
    for group in optimizer.param_groups:
        if group.get("momentum") or "betas" in group:
            raise ValueError(
                f"shoal.wrap: codec={codec!r} makes steps of a momentum of its own, and "
                f"{type(optimizer).__name__} would add another one: take torch.optim.SGD with "
                "momentum=0."
            )


def wrap(
    optimizer: torch.optim.Optimizer,
    sync: str = "all_reduce",
    codec: Optional[str] = None,
    collective: Optional[str] = None,
    comm: Optional[Comm] = None,
    named_parameters=None,
    on_loss: str = "stop",
) -> torch.optim.Optimizer:
    """Train a plain module with a synchronisation protocol ("ripples:smart", "diloco:every=32",
    "hop:backup=1", "ad_psgd", "local_sgd" ...) instead of DistributedDataParallel.

    The same optimizer comes back: its step() exchanges and updates, zero_grad() keeps gradients in
    place, finish() is called once after the last step, optimizer.shoal tells how it goes. Learning
    rate schedulers and checkpoints work as before. Parameters start as rank 0's. Those of float32
    on the CPU move into one flat buffer; those on a CUDA device and of half types are copied to one
    and back in every step (the protocol works in float32). named_parameters:
    model.named_parameters(), for keys that outlive a change of the parameter order. codec is of
    gradients (of pseudo-gradients with diloco); collective: a spec ("ring"). Returns optimizer.

    Protocols that run the optimiser themselves (param_server) take lr and momentum of SGD, and
    nothing else. Communication does not overlap with backward(): use shoal.ddp where it should.

    on_loss="reform" (sync="all_reduce" only): members may change; give model and optimizer to
    shoal.elastic(), which goes on without ranks that are lost and takes in new ones. Other
    protocols go on without lost ranks by themselves, and take in none (shoal train's do)."""
    if hasattr(optimizer, "shoal"):
        raise ValueError("this optimizer is wrapped already")
    job.check(sync, codec, collective, reform=on_loss == "reform")
    _makes_steps_alone(optimizer, codec)
    if on_loss == "reform" and sync.split(":")[0] != "all_reduce":
        raise ValueError(
            f"shoal.wrap: on_loss='reform' does not go with sync={sync!r}: shoal.elastic moves the "
            "state of one rank, which replicas that differ are none of. Leave it out (the others "
            "go on without a lost rank), or take sync='all_reduce'; shoal train has both."
        )
    synchroniser = Synchroniser(
        optimizer,
        comm or torch_process_group.default_comm(on_loss),
        (sync, collective, codec),
        None if named_parameters is None else list(named_parameters),
    )
    kind = type(optimizer)
    members = {name: vars(_Wrapped)[name] for name in ("step", "zero_grad", "finish")}
    optimizer.__class__ = type(kind.__name__, (kind,), members)
    optimizer.shoal = synchroniser
    optimizer._step_alone = lambda: kind.step(optimizer)
    optimizer._zero_alone = lambda **options: kind.zero_grad(optimizer, **options)
    group = optimizer.param_groups[0]
    if isinstance(optimizer, torch.optim.SGD) and not synchroniser.comm.reforms:
        dll.shoal_sync_set_sgd(synchroniser._usable(), group["lr"], group["momentum"])
    return optimizer
