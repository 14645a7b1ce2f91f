# SPDX-License-Identifier: Apache-2.0
"""Tensors of an accelerator on their way over the network and back.

The library works on memory of the host. A tensor goes there through pinned memory, by a stream of
its own, and comes back by another, so that both ways over the bus and the network overlap. What the
device can do it does (float32 of half types, means); what the host has to do (copies to and from
memory that is not pinned) it does by pieces, while others are on their way:

    caller       out waits for what the caller's stream has been given; copies; an event per piece
    our thread   waits for each piece's event, then starts the operation
    library      the operation; its end puts the copies back on the stream `back`
    caller       waits for the event behind them: a stream does, not the host

Whoever frees a tensor or takes it anew is safe: streams that use it are noted. Pinned memory is
kept; of one bucket there are two buffers, so that the next step's copy need not wait for the last
one's way back. All waits of the host have an end.

A device is an object with the methods of `Cuda`; tests have one that reorders its streams."""

import concurrent.futures
import os
import queue
import threading
import time

import torch

from ._errors import DeadlinePassed, Error, InvalidArgument, NotSupported, OutOfMemory, SystemFailed

PIECE_BYTES = 1 << 20
PATIENCE_S = 300.0  # of a wait for the device, as long as an operation of a communicator has
_ALIGN = 256


class Cuda:
    """What staging needs of a device, by torch.cuda (also of AMD's, which PyTorch calls so)."""

    def __init__(self, device):
        self.device, self.name = device, str(device)

    def stream(self):
        return torch.cuda.Stream(self.device)

    def current(self):
        """The stream that the calling thread's work is given to."""
        return torch.cuda.current_stream(self.device)

    def record(self, stream):
        """An event behind all that a stream has been given."""
        event = torch.cuda.Event()
        event.record(stream)
        return event

    def wait(self, stream, event):
        """What the stream is given from now on runs behind the event."""
        stream.wait_event(event)

    def done(self, event):
        """Whether the event has come; raises what the device failed with."""
        return event.query()

    def copy(self, target, source, stream):
        """On the stream, without waiting."""
        with torch.cuda.stream(stream):
            target.copy_(source, non_blocking=True)

    def run(self, action, stream):
        """What action() gives the device, on the stream."""
        with torch.cuda.stream(stream):
            action()

    def pinned(self, count):
        """uint8[count] of the host that the device copies from and to by itself."""
        return torch.empty(count, dtype=torch.uint8, pin_memory=True)

    def keep(self, tensor, stream):
        """Its memory is not given away before the stream has come so far."""
        tensor.record_stream(stream)

    def future(self):
        return torch.futures.Future(devices=[self.device])

    def finish(self, future, value, stream):
        """The future's value is there when the stream has come so far."""
        with torch.cuda.stream(stream):
            future.set_result(value)

    def recording(self):
        """Whether the caller's stream records a graph instead of running."""
        return torch.cuda.is_current_stream_capturing()


# By the type of a torch.device: a device's maker.
makers = {"cuda": Cuda}
_lock = threading.Lock()
_stagings: dict = {}


def _after_fork():
    global _lock
    _lock = threading.Lock()
    _stagings.clear()  # their threads are the parent's


os.register_at_fork(after_in_child=_after_fork)


def of(tensor):
    """The staging of the device that a tensor is on; None: it is in the host's memory."""
    kind = tensor.device.type
    if kind not in makers:
        if kind == "cpu":
            return None
        raise NotSupported(f"shoal takes tensors on the CPU and on CUDA devices, not on {kind}")
    with _lock:
        found = _stagings.get(tensor.device)
        if found is None:
            device = makers[kind](tensor.device)
            try:
                found = _stagings[tensor.device] = Staging(device)
            except RuntimeError as error:  # a kernel may have failed before we came
                raise _named(device, error) from error
        return found


def among(tensors):
    """of() several tensors, which have to be on one device."""
    devices = {tensor.device for tensor in tensors}
    if len(devices) > 1:
        names = " and ".join(sorted(map(str, devices)))
        raise InvalidArgument(f"tensors on {names} in one call: it takes those of one device")
    for tensor in tensors:
        return of(tensor)
    return None


class _Slot:
    """A pinned buffer: whether an operation has it, and the event behind its last copies back."""

    def __init__(self, key, raw):
        self.key, self.raw, self.busy, self.last = key, raw, True, None


class _Pool:
    """Pinned buffers by what they are for."""

    def __init__(self, device):
        self.device, self.slots = device, {}
        self.changed = threading.Condition()

    def take(self, key, count, most):
        """A buffer of at least count bytes; at most `most` (None: any number) have this key."""
        with self.changed:
            end = time.monotonic() + PATIENCE_S
            while True:
                slots = self.slots.setdefault(key, [])
                # Those that a changed bucket has left are of no use.
                slots[:] = [s for s in slots if s.busy or s.raw.numel() >= count]
                for slot in slots:
                    if not slot.busy:
                        slots.remove(slot)
                        slots.append(slot)  # the other one's turn is first the next time
                        slot.busy = True
                        return slot
                if most is None or len(slots) < most:
                    slots.append(_Slot(key, self._pinned(count)))
                    return slots[-1]
                if not self.changed.wait(max(0.0, end - time.monotonic())):
                    raise DeadlinePassed(
                        f"no buffer for {self.device.name} was given back within {PATIENCE_S:g} s"
                    )

    def _pinned(self, count):
        try:
            return self.device.pinned(count)
        except (RuntimeError, MemoryError):
            for slots in self.slots.values():
                slots[:] = [slot for slot in slots if slot.busy]
        try:
            return self.device.pinned(count)
        except (RuntimeError, MemoryError) as error:
            held = sum(slot.raw.numel() for slots in self.slots.values() for slot in slots)
            raise OutOfMemory(
                f"no pinned memory: {count} bytes for {self.device.name}, beside {held} that are"
                f" in use ({_first_line(error)})",
                advice="raise the limit of locked memory (ulimit -l), or make buckets smaller",
            ) from error

    def give(self, slot, last):
        with self.changed:
            slot.busy, slot.last = False, last
            self.changed.notify_all()

    def drop(self, slot):
        """A copy may still be on its way into it."""
        with self.changed:
            if slot in self.slots[slot.key]:
                self.slots[slot.key].remove(slot)
            self.changed.notify_all()


def _first_line(error):
    return str(error).strip().split("\n")[0] or type(error).__name__


def _named(device, error):
    """What PyTorch says of a device, as an exception of ours."""
    if isinstance(error, Error) or not isinstance(error, RuntimeError):
        return error
    failed = SystemFailed(f"{device.name} failed: {_first_line(error)}")
    failed.__cause__ = error
    return failed


class _Way:
    """One tensor of a parcel. flat: its elements on the device; host: pinned, of its type."""

    def __init__(self, tensor, goes, comes):
        self.tensor, self.goes, self.comes = tensor.detach(), goes, comes
        self.flat = self.tensor.contiguous().view(-1)
        self.bytes = self.flat.numel() * self.flat.element_size()
        self.host = None

    def pieces(self, whole):
        size = PIECE_BYTES // self.flat.element_size() if not whole else max(1, self.flat.numel())
        for start in range(0, self.flat.numel(), size):
            yield start, min(start + size, self.flat.numel())


class _Parcel:
    """Tensors that travel together. pieces: (way, start, end, event) of those that go."""

    def __init__(self, ways, slot, operate, arrived, leaving, settle):
        self.ways, self.slot, self.operate = ways, slot, operate
        self.arrived, self.leaving, self.settle, self.pieces = arrived, leaving, settle, []
        self.done = concurrent.futures.Future()


def mean(count):
    """For float32(): the sum of `count` ranks becomes their mean. The divisor is a tensor of the
    device, because a device multiplies by the reciprocal of a number, whose bits are not those of
    the CPU's division."""
    if count == 1:
        return None
    return lambda flat: flat.div_(torch.full((), float(count), device=flat.device))


class Staging:
    """The way of one device's tensors; thread-safe."""

    def __init__(self, device):
        self.device, self.pool = device, _Pool(device)
        self.out, self.back = device.stream(), device.stream()
        self._parcels = queue.SimpleQueue()
        # Parcels are put on streams and into the queue as one, so that both have one order.
        self._order = threading.Lock()
        threading.Thread(target=self._serve, name="shoal staging", daemon=True).start()

    def travel(
        self, tensors, operate, key=None, most=None, arrived=None, leaving=None, settle=None
    ) -> "concurrent.futures.Future":
        """Tensors to the host, an operation on them, and back; a future of the event behind it.

        tensors: (tensor, goes, comes): whether its values are to be had on the host, and whether
        the host's are to be its afterwards. operate(hosts): called by the staging's thread, calls
        one behind the other, with pinned tensors [count] of the same types; gives a future.
        key, most: whose buffers, and how many of those (see _Pool). arrived(host, start, end): a
        piece has come; leaving(...): it is about to go back; without them a tensor is one piece.
        settle(): what the device does behind the last copy back. Raises OutOfMemory, NotSupported
        (while a CUDA graph is recorded); the future fails with what the operation failed with, and
        with SystemFailed if the device did."""
        if self.device.recording():
            raise NotSupported("operations on the network cannot be part of a CUDA graph")
        ways = [_Way(*one) for one in tensors]
        sizes = [-(-way.bytes // _ALIGN) * _ALIGN for way in ways]
        total = max(_ALIGN, sum(sizes))
        total = total if key else 1 << (total - 1).bit_length()  # few sizes serve all
        slot = self.pool.take(key or total, total, most)
        parcel, at = _Parcel(ways, slot, operate, arrived, leaving, settle), 0
        for way, size in zip(ways, sizes):
            way.host = slot.raw[at : at + way.bytes].view(way.flat.dtype)
            at += size
        try:
            with self._order:
                self._copy_out(parcel)
                self._parcels.put(parcel)
        except Exception as error:
            self.pool.drop(slot)
            raise _named(self.device, error) from error
        return parcel.done

    def _copy_out(self, parcel):
        device = self.device
        ready = device.record(device.current())
        device.wait(self.out, ready)
        device.wait(self.back, ready)  # what the caller still does with targets comes first
        if parcel.slot.last is not None:
            device.wait(self.out, parcel.slot.last)
        for way in parcel.ways:
            if not way.goes:
                continue
            device.keep(way.flat, self.out)
            for start, end in way.pieces(parcel.arrived is None):
                device.copy(way.host[start:end], way.flat[start:end], self.out)
                parcel.pieces.append((way, start, end, device.record(self.out)))
        if not parcel.pieces and parcel.slot.last is not None:  # the host itself writes to it
            parcel.pieces.append((None, 0, 0, parcel.slot.last))

    # ------------------------------------------------------------------ our thread

    def _serve(self):
        while True:
            parcel = self._parcels.get()
            try:
                for way, start, end, event in parcel.pieces:
                    self._await(event)
                    if way is not None and parcel.arrived is not None:
                        parcel.arrived(way.host, start, end)
                parcel.pieces = ()
                operation = parcel.operate([way.host for way in parcel.ways])
            except BaseException as error:
                self.pool.drop(parcel.slot)
                parcel.done.set_exception(_named(self.device, error))
                continue
            operation.add_done_callback(lambda over, parcel=parcel: self._copy_back(parcel, over))
            del parcel, operation  # not held while nothing is to do

    def _await(self, event):
        end, pause = time.monotonic() + PATIENCE_S, 1e-5
        while not self.device.done(event):
            if time.monotonic() > end:
                raise DeadlinePassed(
                    f"{self.device.name} has not finished a copy within {PATIENCE_S:g} s"
                )
            time.sleep(pause)
            pause = min(2 * pause, 2e-4)

    def _copy_back(self, parcel, operation):
        # Futures remember who was called: nothing of the parcel is to live as long as they do.
        ways, slot, settle = parcel.ways, parcel.slot, parcel.settle
        parcel.ways = parcel.slot = parcel.settle = None
        try:
            operation.result()
        except BaseException as error:
            self.pool.give(slot, None)
            parcel.done.set_exception(error)
            return
        try:
            for way in ways:
                if way.comes:
                    self._way_back(way, parcel.leaving)
            if settle is not None:
                self.device.run(settle, self.back)
            event = self.device.record(self.back)
        except BaseException as error:
            self.pool.drop(slot)  # copies may be under way
            parcel.done.set_exception(_named(self.device, error))
            return
        self.pool.give(slot, event)
        parcel.done.set_result(event)

    def _way_back(self, way, leaving):
        device = self.device
        for start, end in way.pieces(leaving is None):
            if leaving is not None:
                leaving(way.host, start, end)
            device.copy(way.flat[start:end], way.host[start:end], self.back)
        device.keep(way.flat, self.back)
        if way.flat.data_ptr() != way.tensor.data_ptr():
            device.copy(way.tensor, way.flat.view(way.tensor.shape), self.back)
            device.keep(way.tensor, self.back)

    # ------------------------------------------------------------------ what is made of it

    def float32(self, tensor, operate, settle=None, key=None, most=None):
        """travel() of one tensor in place for an operation on float32: operate(flat) with the
        tensor's values as float32[count]; settle(flat) changes what has come back, on the device.
        Other types become float32 there and travel as such: more bytes over the bus than theirs,
        and nothing for the host to do."""
        device, tensor = self.device, tensor.detach()
        wide = tensor
        if tensor.dtype != torch.float32:
            wide = torch.empty(tensor.shape, device=tensor.device)
            device.copy(wide, tensor, device.current())

        def back():
            if settle is not None:
                settle(wide)
            if wide is not tensor:
                tensor.copy_(wide)
                device.keep(tensor, self.back)

        way = [(wide, True, True)]
        return self.travel(way, lambda hosts: operate(hosts[0]), key, most, settle=back)

    def fetch(self, target, tensor, key=None):
        """A tensor's values in target, memory of the host with as many elements of any type."""
        flat = target.view(-1)

        def arrived(host, start, end):
            flat[start:end].copy_(host[start:end])

        self.travel([(tensor, True, False)], _at_once, key, None, arrived).result()

    def put(self, tensor, source, key=None):
        """The opposite; what the caller's stream does next sees it."""
        flat = source.view(-1)

        def leaving(host, start, end):
            host[start:end].copy_(flat[start:end])

        self.follow(self.travel([(tensor, False, True)], _at_once, key, leaving=leaving).result())

    def follow(self, event):
        """What the caller gives its stream from now on is behind the event."""
        self.device.wait(self.device.current(), event)

    def mirror(self, done, value):
        """A future of PyTorch with `value` when done has its event; it carries the stream."""
        future = self.device.future()

        def finish(done):
            error = done.exception()
            if error is None:
                self.device.finish(future, value, self.back)
            else:
                future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))

        done.add_done_callback(finish)
        return future


def _at_once(hosts):
    done = concurrent.futures.Future()
    done.set_result(hosts)
    return done
