# SPDX-License-Identifier: Apache-2.0
"""The job that this process is a rank of: made by the first call that needs it, or by init()."""

import threading

from ._comm import Comm

_lock = threading.Lock()
_comm = None


def init(*args, **options) -> Comm:
    """Join the job now: args and options are Comm's; shoal's functions use it from then on.
    ValueError if there is one already."""
    global _comm
    with _lock:
        if _comm is not None:
            raise ValueError("this process has joined already: shoal.close() first")
        _comm = Comm(*args, **options)
        return _comm


def comm() -> Comm:
    """The job's communicator; joins from the launcher's variables if nobody did."""
    global _comm
    with _lock:
        if _comm is None:
            _comm = Comm()
        return _comm


def joined() -> bool:
    """Whether this process has joined a job."""
    return _comm is not None


def close() -> None:
    """Leave the job. Without one it does nothing."""
    global _comm
    with _lock:
        left, _comm = _comm, None
    if left is not None:
        left.close()


def rank() -> int:
    """This process's rank."""
    return comm().rank


def world_size() -> int:
    """How many ranks the job has."""
    return comm().world_size


def allreduce(array, **options):
    """Sum over all ranks, in place; options (average=True, codec="int8" ...) as of Comm.allreduce.
    array: float32 of any shape, contiguous; a tensor of PyTorch may be half and on a CUDA device.
    Returns array."""
    return comm().allreduce(array, **options)


def broadcast(array, root: int = 0, **options):
    """The float32 values of rank `root` to all, in place; options as of Comm.start. Returns
    array."""
    return comm().broadcast(array, root, **options)


def allgather(array, **options):
    """Every rank's shard (Comm.shard) to all, in place; options as of Comm.start. Returns array."""
    return comm().allgather(array, **options)


def barrier(timeout=None) -> None:
    """Return when every rank has come; DeadlinePassed after timeout seconds (the
    communicator's)."""
    comm().barrier(timeout)
