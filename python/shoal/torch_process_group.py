# SPDX-License-Identifier: Apache-2.0
"""`torch.distributed.init_process_group("shoal")`: a backend in Python.

float32 sums, averages and maxima run on the ring, in place. Half types are summed in float32. All
other types and operations gather every member's tensor and reduce it here, in rank order: exact,
but N times the traffic, so for small tensors. Tensors of CUDA devices go through pinned memory."""

import datetime
import inspect
import os
import socket
import time
import weakref
from typing import Any, Optional

import torch
import torch.distributed as dist

from . import _default
from ._comm import Comm, key_of
from ._errors import DeadlinePassed
from .torch_device import staged
from .torch_messages import Messages, monitored_barrier
from .torch_sparse import reduce_sparse
from .torch_work import Channel, FutureWork, all_of, seconds_of, settled, then

_DEVICES = ("cpu", "cuda")
_PATIENCE_S = 300.0  # as long as an operation of a communicator has
_HALF = (torch.float16, torch.bfloat16)
_LOCAL = {
    "SUM": lambda a, b: a + b,
    "AVG": lambda a, b: a + b,
    "PRODUCT": lambda a, b: a * b,
    "MIN": torch.minimum,
    "MAX": torch.maximum,
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}


def _op_name(op) -> str:
    """ "SUM" of whatever this version of PyTorch calls a reduction."""
    name = str(getattr(op, "op", op)).rsplit(".", 1)[-1]
    if name not in _LOCAL:
        raise RuntimeError(f"shoal: no reduction {name}; there are {', '.join(_LOCAL)}")
    return name


def _positive(timeout: Optional[datetime.timedelta]) -> Optional[float]:
    return timeout.total_seconds() if timeout is not None and timeout.total_seconds() > 0 else None


def _one(tensors):
    if len(tensors) != 1:
        raise RuntimeError(f"shoal: one tensor per rank, not {len(tensors)}")
    return tensors[0]


def _fits(call, parts, count, like):
    """`parts` are one tensor like `like` for each of `count` members."""
    if len(parts) != count:
        raise RuntimeError(
            f"shoal: {call} among {count} ranks takes {count} tensors, not {len(parts)}"
        )
    for part in parts:
        if part.shape != like.shape or part.dtype != like.dtype:
            raise RuntimeError(
                f"shoal: {call} takes tensors of one shape and type on all ranks, not"
                f" {tuple(like.shape)} of {like.dtype} and {tuple(part.shape)} of {part.dtype}"
            )


def _pairs(outputs, inputs):
    if len(outputs) != len(inputs):
        raise RuntimeError(f"shoal: {len(outputs)} outputs for {len(inputs)} inputs")
    return zip(outputs, inputs)


def _split(call, whole, count, part):
    """The parts of a tensor that holds one like `part` for each of `count` members."""
    if whole.numel() != count * part.numel() or whole.dtype != part.dtype:
        raise RuntimeError(
            f"shoal: {call} among {count} ranks takes {count} times {part.numel()} elements of"
            f" {part.dtype} in one tensor, not {whole.numel()} of {whole.dtype}"
        )
    if not whole.is_contiguous():
        raise RuntimeError(f"shoal: {call} takes a contiguous tensor for all ranks' parts")
    return list(whole.view(count, *part.shape))


_Base: Any = getattr(dist, "BackendBase", dist.ProcessGroup)


class ProcessGroupShoal(_Base):
    """Members of a communicator as a process group of PyTorch."""

    def __init__(self, comm: Comm, members, name: str, timeout: Optional[float] = None):
        super().__init__(members.index(comm.rank), len(members))
        self._timeout, self._group_name = timeout, name
        self._adopt(comm, members, name)

    def _adopt(self, comm, members, name):
        self._channel = Channel(comm, members, key_of("group " + name) & 0xFFFFFFFF)
        self._messages = Messages(self._channel)

    def getBackendName(self):
        return "shoal"

    def name(self):
        return "shoal"

    def size(self):
        return self._channel.size

    def rank(self):
        return self._channel.me

    # PyTorch 2 asks groups for their names, devices and backends; it would find none in a group
    # that is written in Python.

    @property
    def group_name(self):
        return self._group_name

    def getGroupName(self):
        return self._group_name

    def _set_group_name(self, name):
        self._group_name = name

    setGroupName = _set_group_name

    @property
    def _device_types(self):
        """Empty until PyTorch has entered the group: before that it would hang its recorder of
        operations on a backend in C++."""
        world = getattr(dist.distributed_c10d, "_world", None)
        return [torch.device("cpu")] if world is None or self in world.pg_names else []

    def _get_backend(self, device):
        if torch.device(device).type not in _DEVICES:
            raise RuntimeError(f"shoal: tensors on {' and '.join(_DEVICES)}, not on {device}")
        return self

    def set_timeout(self, timeout):
        """From now on operations have so long that name no end of their own."""
        self._timeout = _positive(timeout)

    _set_default_timeout = set_timeout

    def _limit(self, options):
        """An operation's deadline in seconds: its own, the group's, or None: the communicator's."""
        return seconds_of(options) or self._timeout

    def _work(self, future, result):
        return FutureWork(future, result)

    # ------------------------------------------------------------------ members that change

    def follow(self, comm: Comm):
        """From now on all members of comm are this group's, whoever they are."""
        self._comm = comm
        self._renew()
        comm._after_reform.append(weakref.WeakMethod(self._renew))

    def _renew(self):
        view = self._comm.view()
        self._adopt(self._comm, range(view.rank_count), f"of epoch {view.epoch}")

    @property
    def supports_reconfigure(self):
        return self._channel.comm.reforms

    def get_reconfigure_handle(self):
        """This process among the members of the communicator's present epoch."""
        comm = self._channel.comm
        return f"shoal:{comm.view().epoch}:{comm.rank}"

    def reconfigure(self, opts):
        """torch.distributed's reconfigure: the processes whose handles are given, in that order,
        are the group. After a failure all that are left reform first, and have to be those."""
        comm = self._channel.comm
        epochs, ranks = zip(*(map(int, handle.split(":")[1:]) for handle in opts.handles))
        if set(epochs) != {comm.view().epoch}:
            raise RuntimeError("shoal: handles of another epoch: ask for them again after a reform")
        ranks = list(ranks)
        if comm.failure is not None or comm.reform_wanted():
            view = comm.reform(timeout=seconds_of(opts))
            if view.rank_count != len(ranks):
                raise RuntimeError(
                    f"shoal: {len(ranks)} handles, but the job has {view.rank_count} members now"
                )
            ranks = [sorted(ranks).index(rank) for rank in ranks]  # members keep their order
        self._adopt(comm, ranks, f"reconfigured {opts.uuid}")
        return self._work(settled(), [])

    # ------------------------------------------------------------------ reductions

    def _reduce(self, tensor, op, timeout):
        """All-reduce of one tensor, in place."""
        name, channel = _op_name(op), self._channel
        if tensor.is_sparse or tensor.layout != torch.strided:
            if name not in ("SUM", "AVG"):
                raise RuntimeError(f"shoal: sparse tensors are summed or averaged, not {name}")
            return reduce_sparse(channel, tensor, name == "AVG", timeout)
        if tensor.dtype in _HALF + (torch.float32,) and name in ("SUM", "AVG", "MAX"):
            flat = tensor.detach().float().contiguous()
            if flat.data_ptr() != tensor.data_ptr() or flat.dtype != tensor.dtype:
                flat = flat.clone()
            done = channel.reduce_floats(flat, "max" if name == "MAX" else "sum", timeout)

            def finish():
                if name == "AVG":
                    flat.div_(channel.size)
                if flat.data_ptr() != tensor.data_ptr():
                    tensor.copy_(flat)

            return then(done, finish)
        done, found = channel.gather(tensor, timeout)

        def combine():
            total = found[0].clone()
            for part in found[1:]:
                total = _LOCAL[name](total, part)
            tensor.copy_(total / channel.size if name == "AVG" else total)

        return then(done, combine)

    @staged("both")
    def allreduce(self, tensors, opts=None):
        op = opts.reduceOp if hasattr(opts, "reduceOp") else (opts or dist.ReduceOp.SUM)
        futures = [self._reduce(t, op, self._limit(opts)) for t in tensors]
        return self._work(all_of(futures), tensors)

    def allreduce_coalesced(self, tensors, opts=None):
        return self.allreduce(tensors, opts)

    @staged("both")
    def reduce(self, tensors, opts):
        """The sum is at the root; elsewhere the tensor keeps what it had."""
        tensor = _one(tensors)
        target = tensor if self._channel.me == opts.rootRank else tensor.clone()
        done = self._reduce(target, opts.reduceOp, self._limit(opts))
        return self._work(done, tensors)

    def _scatter_sum(self, output, inputs, op, timeout):
        _fits("reduce_scatter", inputs, self._channel.size, output)
        whole = torch.stack(list(inputs))
        done = self._reduce(whole, op, timeout)
        return then(done, lambda: output.copy_(whole[self._channel.me]))

    @staged("comes", "goes")
    def reduce_scatter(self, outputs, inputs, opts=None):
        op = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
        done = self._scatter_sum(_one(outputs), _one(inputs), op, self._limit(opts))
        return self._work(done, outputs)

    def _scatter_whole(self, output, whole, opts):
        parts = _split("reduce_scatter", whole.contiguous(), self._channel.size, output)
        op = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
        return self._scatter_sum(output, parts, op, self._limit(opts))

    @staged("comes", "goes")
    def _reduce_scatter_base(self, output, whole, opts=None):
        return self._work(self._scatter_whole(output, whole, opts), [output])

    reduce_scatter_single = _reduce_scatter_base

    @staged("comes", "goes")
    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        futures = [self._scatter_whole(o, i, opts) for o, i in _pairs(outputs, inputs)]
        return self._work(all_of(futures), outputs)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    # ------------------------------------------------------------------ copies

    @staged("both")
    def broadcast(self, tensors, opts):
        futures = [self._channel.broadcast(t, opts.rootRank, self._limit(opts)) for t in tensors]
        return self._work(all_of(futures), tensors)

    def _gather_into(self, targets, tensor, timeout):
        done, found = self._channel.gather(tensor, timeout)

        def finish():
            for target, part in zip(targets, found):
                target.copy_(part)

        return then(done, finish)

    @staged("comes", "goes")
    def allgather(self, outputs, inputs, opts=None):
        targets, tensor = _one(outputs), _one(inputs)
        _fits("all_gather", targets, self._channel.size, tensor)
        return self._work(self._gather_into(targets, tensor, self._limit(opts)), outputs)

    @staged("comes", "goes")
    def allgather_coalesced(self, outputs, inputs, opts=None):
        """outputs[rank][i] is what `rank` has as inputs[i]."""
        n = self._channel.size
        if len(outputs) != n or any(len(row) != len(inputs) for row in outputs):
            raise RuntimeError(
                f"shoal: all_gather_coalesced of {len(inputs)} tensors among {n} ranks takes {n}"
                f" lists of {len(inputs)}, not lists of {[len(row) for row in outputs]}"
            )
        columns = [[row[i] for row in outputs] for i in range(len(inputs))]
        for targets, tensor in zip(columns, inputs):
            _fits("all_gather_coalesced", targets, n, tensor)
        limit = self._limit(opts)
        futures = [self._gather_into(t, i, limit) for t, i in zip(columns, inputs)]
        return self._work(all_of(futures), outputs)

    def _gather_whole(self, output, tensor, opts):
        parts = _split("all_gather", output, self._channel.size, tensor)
        return self._gather_into(parts, tensor, self._limit(opts))

    @staged("comes", "goes")
    def _allgather_base(self, output, tensor, opts=None):
        return self._work(self._gather_whole(output, tensor, opts), [output])

    all_gather_single = _allgather_base

    @staged("comes", "goes")
    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        futures = [self._gather_whole(o, i, opts) for o, i in _pairs(outputs, inputs)]
        return self._work(all_of(futures), outputs)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    @staged("comes", "goes")
    def gather(self, outputs, inputs, opts):
        tensor, targets = _one(inputs), []
        if self._channel.me == opts.rootRank:
            targets = _one(outputs)
            _fits("gather", targets, self._channel.size, tensor)
        return self._work(self._gather_into(targets, tensor, self._limit(opts)), outputs)

    @staged("comes", "goes")
    def scatter(self, outputs, inputs, opts):
        """Each member gets its part straight from the root."""
        me, output, futures = self._channel.me, _one(outputs), []
        if me == opts.rootRank:
            _fits("scatter", _one(inputs), self._channel.size, output)
        number = self._channel.next()[1]
        for member in range(self._channel.size):
            if me == opts.rootRank and member == me:
                output.copy_(_one(inputs)[me])
            elif me == opts.rootRank:
                futures.append(self._pass(_one(inputs)[member], me, member, number, opts))
            elif member == me:
                futures.append(self._pass(output, opts.rootRank, me, number, opts))
        return self._work(all_of(futures), outputs)

    def _pass(self, tensor, sender, receiver, number, opts):
        """A message that belongs to collective `number`: tag -1 keeps it apart from send()'s."""
        return self._channel.pass_on(tensor, sender, receiver, -1, number, self._limit(opts))

    def _exchange(self, outputs, inputs, opts):
        """inputs[i] to member i, outputs[i] from member i."""
        me, futures, n = self._channel.me, [], self._channel.size
        if len(outputs) != n or len(inputs) != n or outputs[me].numel() != inputs[me].numel():
            raise RuntimeError(
                f"shoal: all_to_all among {n} ranks takes {n} tensors each way, and a rank's own"
                " of one size"
            )
        number = self._channel.next()[1]
        for member in range(self._channel.size):
            if member == me:
                outputs[me].copy_(inputs[me].view(outputs[me].shape))
                continue
            futures.append(self._pass(inputs[member], me, member, number, opts))
            futures.append(self._pass(outputs[member], member, me, number, opts))
        return all_of(futures)

    @staged("comes", "goes")
    def alltoall(self, outputs, inputs, opts=None):
        return self._work(self._exchange(outputs, inputs, opts), outputs)

    @staged("comes", "goes")
    def alltoall_base(self, output, tensor, output_splits, input_splits, opts=None):
        n = self._channel.size
        outputs = output.split(output_splits or output.shape[0] // n)
        inputs = tensor.split(input_splits or tensor.shape[0] // n)
        if len(outputs) != n or len(inputs) != n:
            raise RuntimeError(f"shoal: all_to_all of {n} ranks needs {n} equal parts or splits")
        return self._work(self._exchange(outputs, inputs, opts), [output])

    all_to_all_single = alltoall_base

    def barrier(self, opts=None):
        return self._work(self._channel.reduce_floats(torch.zeros(1), "sum", self._limit(opts)), [])

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """A barrier whose failure says on member 0 who has not come. torch.distributed's function
        of this name wants Gloo by name up to PyTorch 2.6: call the group's there."""
        seconds = self._timeout if timeout is None else timeout.total_seconds()
        seconds = _PATIENCE_S if seconds is None else seconds
        monitored_barrier(self._channel, seconds, wait_all_ranks)

    # ------------------------------------------------------------------ messages

    @staged("goes")
    def send(self, tensors, receiver, tag=0):
        done = self._messages.send(_one(tensors), receiver, tag, self._timeout)
        return self._work(done, tensors)

    @staged("comes")
    def recv(self, tensors, sender, tag=0):
        done = self._messages.receive(_one(tensors), sender, tag, self._timeout)
        return self._work(done, tensors)

    @staged("comes")
    def recv_anysource(self, tensors, tag=0):
        limit = self._timeout or _PATIENCE_S
        request = self._messages.receive_any(_one(tensors), tag, limit)
        return FutureWork(request.done, tensors, limit, request)


def join(store, rank: int, world_size: int, timeout: datetime.timedelta) -> Comm:
    """This process's communicator, met through a store of PyTorch's: rank 0 chooses a port."""
    host = os.environ.get("MASTER_ADDR", "127.0.0.1")
    with socket.socket() as reserved:  # open until we listen, so that nobody else gets its port
        if rank == 0:
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind(("", 0))
            port = reserved.getsockname()[1]
            store.set("shoal", f"tcp://{host}:{port}|{os.urandom(16).hex()}")
        return _join_at(store, rank, world_size, timeout)


def _listening_place(store, timeout):
    """What rank 0 has told the store, once somebody listens there: torchrun's store lives longer
    than ranks that it starts again, and may still have the place of their former lives. Whether
    this is a later life nobody knows: where another node's rank was lost, torchrun's count of
    restarts stays what it was."""
    end = time.monotonic() + max(1.0, timeout.total_seconds())
    while True:
        place, token = store.get("shoal").decode().split("|")
        host, port = place[len("tcp://") :].rsplit(":", 1)
        try:
            socket.create_connection((host.strip("[]"), int(port)), 1.0).close()
            return place, token
        except OSError as error:
            if time.monotonic() > end:
                raise DeadlinePassed(f"rank 0 does not listen at {place}: {error}") from error
        time.sleep(0.02)


def _join_at(store, rank, world_size, timeout):
    if rank == 0:
        place, token = store.get("shoal").decode().split("|")
    else:
        place, token = _listening_place(store, timeout)
    if "SHOAL_TOKEN_FD" in os.environ or "SHOAL_TOKEN_FILE" in os.environ:
        token = None
    wait = timeout.total_seconds() if timeout.total_seconds() > 0 else None
    return _default.init(place, rank, world_size, token=token, join_timeout=wait)


def _life_of(comm, world_size, timeout):
    """A word that the ranks of this life have drawn and no former life of theirs: a store that
    outlives them holds what those have said. "" where not all ranks of the job are here."""
    if comm.life is None and world_size == comm.world_size and not comm.reforms:
        word = torch.tensor(list(os.urandom(8)), dtype=torch.uint8)
        everybody = Channel(comm, range(world_size), key_of("life") & 0xFFFFFFFF)
        everybody.broadcast(word, 0, timeout).result()
        comm.life = bytes(word.tolist()).hex()
    return comm.life or ""


def _create(store, rank, world_size, timeout):
    """Called by PyTorch for the default group and for each new_group that we are in. Of a subgroup
    it tells only our place in it, so members say through the store who they are."""
    comm = _default.comm() if _default.joined() else join(store, rank, world_size, timeout)
    life = _life_of(comm, world_size, _positive(timeout))
    store.set(f"shoal-{life}-{rank}", str(comm.rank))
    members = [int(store.get(f"shoal-{life}-{i}").decode()) for i in range(world_size)]
    if rank == 0:
        store.set(f"shoal-{life}-group", os.urandom(8).hex())
    name = store.get(f"shoal-{life}-group").decode()
    return ProcessGroupShoal(comm, members, name, _positive(timeout))


def default_comm(on_loss: str = "stop") -> Comm:
    """This process's communicator. If torch.distributed was initialised by other means (a launcher
    whose port PyTorch's own store has taken), its store is where we meet."""
    if on_loss == "reform":
        comm = _default.comm() if _default.joined() else _default.init(on_loss=on_loss)
        if not comm.reforms:
            raise ValueError("this process has joined already: shoal.init(on_loss='reform') first")
        return comm
    if not _default.joined() and dist.is_initialized():
        store = dist.PrefixStore("shoal", dist.distributed_c10d._get_default_store())
        wait = datetime.timedelta(seconds=30)
        return join(store, dist.get_rank(), dist.get_world_size(), wait)
    return _default.comm()


def tcp_store(host: str, port: int, world_size: int, serves: bool) -> dist.TCPStore:
    """PyTorch's store without libuv, which some builds of PyTorch 2 ask for and have not."""
    try:
        return dist.TCPStore(
            host, port, world_size, serves, wait_for_workers=False, use_libuv=False
        )
    except TypeError:  # before 2.3 there was no such choice
        return dist.TCPStore(host, port, world_size, serves, wait_for_workers=False)


def initialise(comm: Comm) -> None:
    """torch.distributed's default group on a communicator that has joined already. PyTorch wants a
    store, too: rank 0 serves one, and the communicator says where."""
    host = os.environ.get("MASTER_ADDR", "127.0.0.1")
    port = torch.zeros(1)
    store = None
    if comm.rank == 0:
        store = tcp_store(host, 0, comm.world_size, True)
        port[0] = store.port
    comm.broadcast(port)
    if store is None:
        store = tcp_store(host, int(port[0]), comm.world_size, False)
    register()
    dist.init_process_group("shoal", store=store, rank=comm.rank, world_size=comm.world_size)


def initialise_elastic(comm: Comm) -> None:
    """The default group of a communicator whose members may change. PyTorch's own start needs all
    ranks at once, so each makes a group of itself, which then follows the communicator."""
    if dist.is_initialized():
        raise ValueError("on_loss='reform' makes torch.distributed's default group itself")
    register()
    dist.init_process_group("shoal", store=dist.HashStore(), rank=0, world_size=1)


def follow(comm: Comm) -> None:
    """The default group that initialise_elastic() made follows the communicator."""
    group = dist.distributed_c10d._get_default_group()
    if not isinstance(group, ProcessGroupShoal):
        group = group._get_backend(torch.device("cpu"))
    group.follow(comm)


def register() -> None:
    """Make "shoal" known to torch.distributed; `import shoal` does it behind `import torch`."""
    if hasattr(dist.Backend, "SHOAL"):
        return
    known = inspect.signature(dist.Backend.register_backend).parameters
    extra = {"devices": list(_DEVICES)} if "devices" in known else {}
    dist.Backend.register_backend("shoal", _create, **extra)
