# SPDX-License-Identifier: Apache-2.0
"""Communicators: a job joined, and operations on arrays whose completion one thread waits for."""

import atexit
import concurrent.futures
import ctypes as C
import dataclasses
import hashlib
import os
import threading
import weakref
from typing import List, Optional, Sequence

from . import _abi, _buffers
from ._errors import (
    Cancelled,
    DeadlinePassed,
    EpochChanged,
    Error,
    Forked,
    InvalidArgument,
    PeerLost,
)
from ._library import dll, struct, text

_KINDS = {
    "all_reduce": _abi.SHOAL_ALL_REDUCE,
    "reduce_scatter": _abi.SHOAL_REDUCE_SCATTER,
    "all_gather": _abi.SHOAL_ALL_GATHER,
    "broadcast": _abi.SHOAL_BROADCAST,
    "barrier": _abi.SHOAL_BARRIER,
}
_REDUCTIONS = {"sum": _abi.SHOAL_SUM, "max": _abi.SHOAL_MAX}
# What ends an operation because members are gone: a communicator that may reform goes on after it.
MEMBERSHIP = (PeerLost, EpochChanged, DeadlinePassed, Cancelled)
_LAUNCHERS = ("RANK", "SHOAL_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")


@dataclasses.dataclass(frozen=True)
class View:
    """The membership as this rank sees it; ranks count the live endpoints. epoch is 0 until the
    first reform; workers, aggregators: live endpoints of either kind; done_min, done_max: what
    members told reform(); done_rank: the first with done_max."""

    epoch: int
    rank: int
    rank_count: int
    endpoint: int
    workers: int
    aggregators: int
    done_min: int = 0
    done_max: int = 0
    done_rank: int = 0


def _view_of(v):
    return View(**{field.name: getattr(v, field.name) for field in dataclasses.fields(View)})


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One parameter inside a flat buffer: `key` names it, the same on every rank and in every run
    (error feedback is kept by key); rows x cols for codecs that want a matrix."""

    key: int
    offset: int
    count: int
    rows: int = 0
    cols: int = 0
    flags: int = 0


def key_of(name: str) -> int:
    """A number for a name, the same on every rank and in every run: keys of parameters, groups of
    operations."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "little") + 1


def _microseconds(seconds):
    return None if seconds is None else max(1, int(seconds * 1e6))


def under_launcher() -> bool:
    """Whether a launcher (shoal run, torchrun, mpirun, srun) has said who this process is."""
    return any(name in os.environ for name in _LAUNCHERS)


class Comm:
    """A communicator: this process as one rank of a job.

    Without arguments the launcher's variables say who we are; a process that no launcher started is
    a job of one. Joining waits for all ranks, at most join_timeout seconds; the error names those
    that are missing. Any thread may start operations. Use it as a context manager, or close() it;
    the interpreter's end closes what is left. In a forked child every use raises shoal.Forked.

    rendezvous: "tcp://host:port" (rank 0 listens there) or "file:///shared/path"; rank, world_size:
    instead of the launcher's; job: a name, strangers with another one are refused; token: the
    job's secret, needed off loopback (SHOAL_TOKEN_FILE); interface: name or address of a network
    interface; transport: a spec ("tcp:lanes=2,shm=off"). Seconds: join_timeout (30), peer_timeout
    (2.5, silence until a peer is a suspect), op_timeout (300, an operation's own end). seed: of
    all that is random in codecs; the same on every rank.

    on_loss: "stop" (an operation without one of its ranks raises, and the communicator is over) or
    "reform" (members may change: see reform(); the same on every rank). doors: where members listen
    for newcomers, "10.0.0.1:29402,10.0.0.2:29402", beside the rendezvous. spare: wait for a place
    in the running job, as a process does that `shoal run --spares` started.

    Raises InvalidArgument, DeadlinePassed (who is missing), AuthenticationFailed, VersionMismatch,
    Mismatch (world sizes or seeds that differ), OutOfMemory, SystemFailed.
    """

    def __init__(
        self,
        rendezvous: Optional[str] = None,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        *,
        job: Optional[str] = None,
        token: Optional[str] = None,
        interface: Optional[str] = None,
        transport: Optional[str] = None,
        join_timeout: Optional[float] = None,
        peer_timeout: Optional[float] = None,
        op_timeout: Optional[float] = None,
        seed: Optional[int] = None,
        on_loss: str = "stop",
        doors: Optional[str] = None,
        spare: Optional[bool] = None,
    ):
        if on_loss not in ("stop", "reform"):
            raise ValueError(f"on_loss is 'stop' or 'reform', not {on_loss!r}")
        self.reforms = on_loss == "reform"
        if spare is None:
            spare = self.reforms and "SHOAL_SPARE" in os.environ
        if rendezvous is None and rank is None and world_size is None and not under_launcher():
            rank, world_size = 0, 1
        desc = struct(
            _abi.shoal_comm_desc,
            rendezvous=rendezvous,
            rank=rank,
            world_size=world_size,
            job=job,
            token=token,
            interface=interface,
            transport=transport,
            join_timeout_us=_microseconds(join_timeout),
            peer_timeout_us=_microseconds(peer_timeout),
            op_timeout_us=_microseconds(op_timeout),
            seed=seed,
            reform=self.reforms,
            spare=spare,
            doors=doors,
        )
        self._handle = C.c_void_p()
        dll.shoal_comm_create(C.byref(desc), C.byref(self._handle))
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._pending: dict = {}
        self._waiter = None
        self._stop: list = []  # not empty: the waiter is to end
        self._before_close: list = []  # weak methods of what lives on this communicator
        self._after_reform: list = []  # as well
        self.failure = None  # the last exception about members, until the next reform
        self.life = None  # what torch_process_group tells apart by who speaks in a store
        view = self.view()
        self.rank, self.world_size = view.rank, view.rank_count
        _alive.add(self)

    # ------------------------------------------------------------------ membership

    def _usable(self):
        if self._pid != os.getpid():
            raise Forked("this communicator belongs to the parent process: make one in the child")
        if not self._handle:
            raise Cancelled("the communicator is closed")
        return self._handle

    def view(self) -> View:
        """Ranks and epoch as they are now."""
        v = struct(_abi.shoal_view)
        dll.shoal_comm_view(self._usable(), C.byref(v))
        return _view_of(v)

    def reform_wanted(self) -> bool:
        """A member has gone over to reform(), or a newcomer waits for whom there is room: call
        reform() at the next boundary. Cheap; False without on_loss="reform"."""
        return bool(dll.shoal_comm_reform_wanted(self._usable()))

    def reform(self, done: int = 0, timeout: Optional[float] = None) -> View:
        """Go on with other members; every member calls it, once an operation has failed because
        of a member, or reform_wanted() says so. What PyTorch calls reconfigure, but the members
        find out by themselves who they are.

        done: how far this member is, in whatever all count by. Operations still open end with
        shoal.EpochChanged. Afterwards this object is the next epoch's communicator: rank and
        world_size are new, newcomers come last. Who was done with less than view.done_max, and
        newcomers, take their state from view.done_rank: shoal.elastic does it for PyTorch. Raises
        InvalidArgument without on_loss="reform", PeerLost for a minority, DeadlinePassed after
        timeout (60 s)."""
        if not self.reforms:
            raise InvalidArgument(
                "this communicator's members are fixed: join with on_loss='reform'"
            )
        self._stop_waiter()
        v = struct(_abi.shoal_view)
        with self._lock:
            wait = _microseconds(timeout) or 0
            dll.shoal_comm_reform(C.byref(self._usable()), done, wait, C.byref(v))
            left, self._pending = self._pending, {}
            self._waiter, self._stop, self.failure = None, [], None
        view = _view_of(v)
        self.rank, self.world_size = view.rank, view.rank_count
        for future, _ in left.values():
            future.set_exception(EpochChanged(f"epoch {view.epoch} has begun"))
        _call_all(self._after_reform)
        return view

    def peer_stats(self, rank: int) -> dict:
        """Traffic with one peer since the start: host, transport, bytes, microseconds since it was
        last seen."""
        stats = struct(_abi.shoal_peer_stats)
        dll.shoal_comm_peer_stats(self._usable(), rank, C.byref(stats))
        found = {name: getattr(stats, name) for name, _ in stats._fields_ if name != "size"}
        return {k: text(v) if isinstance(v, bytes) else v for k, v in found.items()}

    def shard(self, count: int, rank: Optional[int] = None) -> slice:
        """The part of count elements that a rank owns after a reduce-scatter."""
        offset, length = C.c_size_t(), C.c_size_t()
        owner = self.rank if rank is None else rank
        dll.shoal_comm_shard(self._usable(), owner, count, C.byref(offset), C.byref(length))
        return slice(offset.value, offset.value + length.value)

    # ------------------------------------------------------------------ operations

    def start(
        self,
        kind: str,
        array=None,
        *,
        reduce: str = "sum",
        codec: Optional[str] = None,
        collective: Optional[str] = None,
        members: Optional[Sequence[int]] = None,
        root: int = 0,
        tensors: Optional[List[Tensor]] = None,
        timeout: Optional[float] = None,
        label: Optional[str] = None,
        name: Optional[tuple] = None,
        bits: bool = False,
    ) -> "concurrent.futures.Future":
        """Start an operation, in place; its future gives {"seconds", "sent_bytes", ...} or raises
        what ended it.

        kind: all_reduce, reduce_scatter, all_gather, broadcast, barrier. array: contiguous float32
        (torch, NumPy, anything with such a buffer); it is borrowed until the future is done.
        reduce: "sum" or "max"; codec, collective: specs ("int8", "ring"); timeout: seconds; label:
        what errors call it. members: ranks that take part (all). root: index in members. tensors:
        what lies in the buffer, for codecs and error feedback. name: (group, sequence), equal on
        all members, instead of numbers in order of start. bits: what the buffer holds are no
        numbers; all_gather and broadcast carry them as they are."""
        buffer = _buffers.of(array) if array is not None else _buffers.Buffer(None, 0, None)
        keep = [buffer]
        desc = struct(
            _abi.shoal_op_desc,
            kind=_KINDS[kind],
            reduce=_REDUCTIONS[reduce],
            buf=buffer.address,
            count=buffer.count,
            push_codec=codec,
            collective=collective,
            root=root,
            timeout_us=_microseconds(timeout),
            label=label,
        )
        if name is not None:
            desc.id.group, desc.id.sequence, desc.id.round = name[0], name[1], 1
        if members is not None:
            ranks = (C.c_uint32 * len(members))(*members)
            desc.members, desc.member_count = C.addressof(ranks), len(members)
            keep.append(ranks)
        if bits:
            tensors = [Tensor(1, 0, buffer.count, flags=_abi.SHOAL_TENSOR_BITS)]
        if tensors is not None:
            table = (_abi.shoal_tensor * len(tensors))()
            for row, t in zip(table, tensors):
                row.key, row.offset, row.count = t.key, t.offset, t.count
                row.rows, row.cols, row.flags, row.lr_scale = t.rows, t.cols, t.flags, 1.0
            desc.tensors, desc.tensor_count = table, len(tensors)
        return self._launch(desc, buffer)

    def _launch(self, desc, buffer):
        future = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        op = C.c_void_p()
        with self._lock:  # the waiter must not see the operation before the table has it
            dll.shoal_op_start(self._usable(), C.byref(desc), C.byref(op))
            self._pending[op.value] = (future, buffer)
            if self._waiter is None:
                self._waiter = threading.Thread(
                    target=_wait_for_all,
                    args=(weakref.ref(self), self._handle, self._stop),
                    daemon=True,
                )
                self._waiter.start()
        return future

    def _take(self, op):
        with self._lock:
            return self._pending.pop(op.value)

    def _run(self, kind, array, average=False, **options):
        factor = 1.0 / len(options.get("members") or range(self.world_size)) if average else None
        staged = _buffers.staging_of(array)
        if staged is not None:
            done = staged.float32(
                array,
                lambda flat: self.start(kind, flat, **options),
                None if factor is None else lambda flat: flat.mul_(factor),
            )
            staged.follow(done.result())
            return array
        flat = _buffers.as_float32(array)
        self.start(kind, flat, **options).result()
        if factor is not None:
            _buffers.scale(flat, factor)
        if flat is not array:
            array.copy_(flat)
        return array

    def allreduce(self, array, *, reduce: str = "sum", average: bool = False, **options):
        """Sum (reduce="max": the largest) over all ranks, in place; average divides by their
        number. options: codec, collective, members, timeout ... as start() has them. Tensors of
        PyTorch may be on a CUDA device and of half types, which are summed in float32; what the
        caller's stream does next sees the sum. Returns array."""
        return self._run("all_reduce", array, average, reduce=reduce, **options)

    def broadcast(self, array, root: int = 0, **options):
        """The values of rank `root` to all, in place; options as of start(). Returns array."""
        return self._run("broadcast", array, root=root, **options)

    def allgather(self, array, **options):
        """Every rank's shard (see shard()) to all, in place; options as of start(). Returns
        array."""
        return self._run("all_gather", array, **options)

    def reduce_scatter(self, array, **options):
        """Sums in this rank's shard, in place; the rest of array is undefined. options as of
        start(). Returns array."""
        return self._run("reduce_scatter", array, **options)

    def barrier(self, timeout: Optional[float] = None) -> None:
        """Return when every rank has come; DeadlinePassed after timeout seconds (op_timeout)."""
        self.start("barrier", timeout=timeout).result()

    # ------------------------------------------------------------------ end

    def close(self) -> None:
        """Say goodbye to all peers. Operations still open end with shoal.Cancelled, here and on
        their members. Closing twice is allowed, in a forked child it does nothing."""
        if self._pid == os.getpid():
            _call_all(self._before_close)
        if self._pid != os.getpid() or not self._handle:
            self._handle = C.c_void_p()
            return
        self._stop_waiter()
        handle, self._handle = self._handle, C.c_void_p()
        dll.shoal_comm_destroy(handle)
        with self._lock:
            left, self._pending = self._pending, {}
        for future, _ in left.values():
            future.set_exception(Cancelled("the communicator was closed"))

    def _stop_waiter(self):
        """The waiting thread must not hold an operation when the communicator goes: an operation of
        this rank alone wakes it up, and it sees that it is no longer wanted."""
        waiter = self._waiter
        self._stop.append(True)
        if waiter is None or waiter is threading.current_thread():
            return
        try:
            self.start("barrier", members=[self.rank])
        except Error:  # then it wakes up by itself
            pass
        waiter.join()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    def __repr__(self):
        state = f"rank {self.rank} of {self.world_size}" if self._handle else "closed"
        return f"<shoal.Comm {state}>"


def _call_all(weak_methods):
    for method in weak_methods:
        call = method()
        if call is not None:
            call()


def _stats(s):
    return {
        "seconds": s.duration_us * 1e-6,
        "encode_seconds": s.encode_ns * 1e-9,
        "decode_seconds": s.decode_ns * 1e-9,
        "sent_bytes": s.sent_payload_bytes,
        "received_bytes": s.received_payload_bytes,
        "rounds": s.rounds,
    }


def _wait_for_all(owner, handle, stop):
    """The waiting thread: one per communicator, until that closes."""
    while not stop:
        op = C.c_void_p()
        try:
            if dll.shoal_comm_next_done(handle, 1_000_000, C.byref(op)) == _abi.SHOAL_PENDING:
                continue
        except Error:
            return
        comm = owner()
        future, _ = comm._take(op) if comm is not None else (concurrent.futures.Future(), None)
        stats = struct(_abi.shoal_op_stats)
        try:
            dll.shoal_op_wait(C.byref(op), -1, C.byref(stats))
        except Error as error:
            if comm is not None and isinstance(error, MEMBERSHIP):
                comm.failure = comm.failure or error
            del comm
            future.set_exception(error)
        else:
            del comm
            future.set_result(_stats(stats))


_alive: weakref.WeakSet = weakref.WeakSet()


@atexit.register
def _close_all():
    for comm in list(_alive):
        comm.close()


def _after_fork():
    for comm in list(_alive):  # locks that another thread held would never be let go here
        comm._lock, comm._pending, comm._waiter = threading.Lock(), {}, None
    _alive.clear()


os.register_at_fork(after_in_child=_after_fork)
