# SPDX-License-Identifier: Apache-2.0
"""`shoal.launch(function, n)`: ranks of a notebook or a script, on this machine."""

import ctypes
import multiprocessing
import os
import pickle
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from multiprocessing.connection import wait as wait_for
from typing import Any, Callable, Dict, List, Optional

from . import _default
from ._errors import DeadlinePassed, InvalidArgument

_PR_SET_PDEATHSIG = 1
_OTHERS = ("SHOAL_RANK", "SHOAL_WORLD_SIZE", "SHOAL_SPARE")  # of a job that we are started in


class RankFailed(RuntimeError):
    """A rank of launch() raised or died. rank; exitcode (None if it raised); its traceback is the
    text. __cause__ is its exception if that could be brought here."""

    def __init__(self, text, rank, exitcode=None):
        super().__init__(text)
        self.rank, self.exitcode = rank, exitcode

    def __reduce__(self):
        return type(self), (self.args[0], self.rank, self.exitcode)


def _portable(value):
    try:
        pickle.loads(pickle.dumps(value))
        return value
    except Exception:
        return None


def _end_with(caller):
    """The kernel kills this rank when the thread of launch() ends, which waits for it: where that
    process is killed nobody else would."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != caller:
        os._exit(1)  # it was killed meanwhile


def _send(answer, *parts):
    """As plain bytes: the pipe's own way leaves PyTorch's tensors with the rank, which ends."""
    answer.send_bytes(pickle.dumps(parts))


def _rank(function, arguments, rank, ranks, settings, answer, caller):
    """The life of a rank: a forked process."""
    _end_with(caller)
    for name in _OTHERS:
        os.environ.pop(name, None)
    os.environ.update(settings, RANK=str(rank), WORLD_SIZE=str(ranks))
    os.environ.update(LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(ranks))
    torch = sys.modules.get("torch")
    if torch is not None and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # a pool of threads does not outlive a fork
    code = 0
    try:
        result = function(*arguments)
        try:
            _send(answer, "done", result)
        except Exception as error:
            raise TypeError(f"what rank {rank} returns cannot be sent here: {error}") from error
    except BaseException as error:
        code = 1
        _send(answer, "raised", traceback.format_exc(), _portable(error))
    _default.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # what the parent registered for its own end is not ours to do


def _cuda_is_in_use():
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()


def _check(function, n):
    if not callable(function):
        raise TypeError(f"shoal.launch calls a function, not {type(function).__name__}")
    if not isinstance(n, int) or not 1 <= n <= 1024:
        raise ValueError(f"n is a number of ranks from 1 to 1024, not {n!r}")
    if _default.joined():
        raise InvalidArgument(
            "this process is a rank itself: launch() from one that is not, or shoal.close() first"
        )
    if _cuda_is_in_use():
        raise InvalidArgument(
            "CUDA is in use in this process, and cannot be in forked ones: restart the notebook"
            " and let only the function touch CUDA"
        )


def reserved_port() -> socket.socket:
    """A bound socket: nobody else gets its port as long as it is open, and rank 0 may listen there.
    On all addresses, as PyTorch's store listens on all: a port that is free on 127.0.0.1 may be
    taken on another of them, by a pair of Gloo's for example. The caller closes it."""
    if socket.has_dualstack_ipv6():
        reserved = socket.socket(socket.AF_INET6)
        reserved.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    else:
        reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("", 0))
    return reserved


def launch(
    function: Callable, n: int, *arguments: Any, timeout: Optional[float] = None
) -> List[Any]:
    """Call function(*arguments) on n ranks of this machine; what each returned, by rank.

        def train(rate):
            model = shoal.ddp(Net())
            ...
            return float(loss)
        shoal.launch(train, 4, 0.1)

    Ranks are forked, so that the function may be one of a notebook's cells and see its variables;
    what it changes stays in its rank. They find each other by themselves and print where this
    process prints. PyTorch computes with one thread in each, unless OMP_NUM_THREADS says more.
    Raises RankFailed with the traceback of the rank that failed first (the others are ended), and
    shoal.DeadlinePassed after timeout seconds; no rank outlives the call, or this process."""
    _check(function, n)
    context = multiprocessing.get_context("fork")
    folder = tempfile.mkdtemp(prefix="shoal-launch-")
    reserved = reserved_port()
    settings = {
        "SHOAL_RENDEZVOUS": f"file://{folder}/job",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(reserved.getsockname()[1]),
    }
    ranks: List[Any] = []
    answers: Dict[Any, int] = {}
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        for rank in range(n):
            here, there = context.Pipe(duplex=False)
            process = context.Process(
                target=_rank,
                args=(function, arguments, rank, n, settings, there, os.getpid()),
            )
            process.start()
            there.close()
            ranks.append(process)
            answers[here] = rank
        return _collect(ranks, answers, timeout)
    finally:
        _end(ranks)
        reserved.close()
        shutil.rmtree(folder, ignore_errors=True)


def _collect(ranks, answers, timeout):
    end = None if timeout is None else time.monotonic() + timeout
    results = [None] * len(ranks)
    while answers:
        left = None if end is None else max(0.0, end - time.monotonic())
        ready = wait_for(list(answers), left)
        if not ready:
            missing = ", ".join(map(str, sorted(answers.values())))
            raise DeadlinePassed(f"ranks {missing} have not returned within {timeout:g} s")
        for pipe in ready:
            rank = answers.pop(pipe)
            try:
                kind, *rest = pickle.loads(pipe.recv_bytes())
            except EOFError:
                raise _died(ranks[rank], rank) from None
            if kind == "raised":
                raise RankFailed(f"rank {rank}:\n{rest[0]}", rank) from rest[1]
            results[rank] = rest[0]
    return results


def _died(process, rank):
    process.join(5)
    code = process.exitcode
    how = f"exit status {code}"
    if code is not None and code < 0:
        how = f"{signal.Signals(-code).name}"
    return RankFailed(f"rank {rank} died: {how}", rank, code)


def _end(ranks):
    """No rank is left: those that are done end by themselves, others by SIGTERM, then SIGKILL."""
    for process in ranks:
        if process.is_alive() and sys.exc_info()[0] is not None:
            process.terminate()
    for process in ranks:
        process.join(10)
        if process.is_alive():
            process.kill()
            process.join()
