# SPDX-License-Identifier: Apache-2.0
"""The library's own trainer from Python: its models, its data sets, its optimisers."""

import ctypes as C
import dataclasses
from typing import Callable, List, Optional

from . import _abi, _default
from ._comm import Comm, under_launcher
from ._library import dll, struct, text


@dataclasses.dataclass(frozen=True)
class Progress:
    """After a step. loss: mean over this rank's samples of the epoch so far, nats. The last fields
    are of an epoch that has just ended, over all workers, else NaN; accuracy in percent."""

    step: int
    steps: int
    epoch: int
    epochs: int
    loss: float
    samples_per_s: float
    epoch_ended: bool
    train_loss: float
    test_loss: float
    test_accuracy: float


@dataclasses.dataclass(frozen=True)
class Training:
    """A run as a whole, over all workers; the same on every rank. Times are means per step in
    milliseconds; payload_bytes and raw_bytes per step of all ranks, coded and as dense float32."""

    workers: int
    steps: int
    params: int
    train_loss: float
    test_loss: float
    test_accuracy: float
    seconds: float
    step_ms: float
    compute_ms: float
    wait_ms: float
    payload_bytes: float
    raw_bytes: float
    skipped: int
    codec: str


def _taken(kind, source, **more):
    names = {field.name for field in dataclasses.fields(kind)} - set(more)
    return kind(**{name: getattr(source, name) for name in names}, **more)


def _progress(p) -> Progress:
    nan = float("nan")
    of_epoch = ("train_loss", "test_loss", "test_accuracy")
    ended = {} if p.epoch_ended else dict.fromkeys(of_epoch, nan)
    return _taken(Progress, p, **ended)


def _own(comm):
    """The handle to train with: of this job's communicator, none for one process alone."""
    if comm is None and not _default.joined() and not under_launcher():
        return None
    chosen = _default.comm() if comm is None else comm
    if chosen.reforms:
        raise ValueError(
            "shoal.train keeps its workers: a communicator with on_loss='reform' is for "
            "shoal.elastic, or use `shoal train --on-loss reform`"
        )
    return chosen._usable()


_NAMES = {"steps": "max_steps", "evaluate": "no_evaluation", "overlap": "no_overlap"}
_TURNED = ("evaluate", "overlap")


def train(
    model: Optional[str] = None,
    data: Optional[str] = None,
    *,
    comm: Optional[Comm] = None,
    on_step: Optional[Callable[[Progress], Optional[bool]]] = None,
    **options,
) -> Optional[Training]:
    """Train a model of `shoal list models` (a name, spec or file) on the data set of a folder, as
    `shoal train` does; every rank of the job calls it. Without a launcher and a communicator it
    trains alone.

    options: out, resume, start, sync, collective, codec, optimizer, schedule, lr, batch, epochs,
    steps, seed, clip_norm, augment, checkpoint_every, evaluate=False ... as the fields of
    shoal_train_desc (include/shoal/train.h). Who goes on (resume=DIR) gives them again: the command
    alone reads them in the folder. on_step is called after each step; True ends the run
    here, which a single process alone may do (other ranks would wait), and gives None.

    Raises as all of shoal does; ValueError for options that do not go together."""
    renamed = {_NAMES.get(key, key): not v if key in _TURNED else v for key, v in options.items()}
    for name in ("reform", "simulate", "may_stop"):
        if renamed.get(name):
            raise ValueError(f"shoal.train has no {name}: use the command, or shoal.sim")
    desc = struct(_abi.shoal_train_desc, model=model, data=data, **renamed)
    handle, owned = C.c_void_p(), _own(comm)
    dll.shoal_train_create(owned, C.byref(desc), C.byref(handle))
    try:
        return _steps(handle, on_step, owned is None)
    finally:
        dll.shoal_train_destroy(handle)


def _steps(handle, on_step, alone) -> Optional[Training]:
    progress = struct(_abi.shoal_train_progress)
    while not progress.done:
        dll.shoal_train_step(handle, C.byref(progress))
        if on_step is None or not on_step(_progress(progress)):
            continue
        if not alone:
            raise ValueError("on_step ended the run of one rank; the others would wait for it")
        return None
    summary = struct(_abi.shoal_train_summary)
    dll.shoal_train_summarise(handle, C.byref(summary))
    return _taken(Training, summary, codec=text(dll.shoal_train_codec(handle)))


@dataclasses.dataclass(frozen=True)
class Point:
    """A job in virtual time at one moment; NaN where it has no numbers. iterations: mean over
    workers; loss: of the samples since the point before; consensus: mean squared distance of
    workers from their mean."""

    time_s: float
    iterations: float
    loss: float
    consensus: float


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """A worker or, behind them, a server. end: "done", "stopped", "failed" (text says why), "dead"
    (by the fault plan) or "running"."""

    end: str
    text: str
    iterations: int
    gradients: int
    compute_s: float
    idle_s: float
    sent_bytes: int
    received_bytes: int


@dataclasses.dataclass(frozen=True)
class Simulation:
    """A job in virtual time. iteration_s: mean over workers of their time per iteration.
    utilisation: share of the workers' time that they computed. Losses and accuracy (percent) are
    NaN without a network. chosen: what sync="auto" took and why, else ""."""

    duration_s: float
    iteration_s: float
    iterations_min: int
    iterations_max: int
    utilisation: float
    sent_bytes: int
    busiest_link_bytes: int
    gap_max: int
    skipped: int
    epochs: int
    train_loss: float
    test_loss: float
    test_accuracy: float
    chosen: str
    endpoints: List[Endpoint]
    curve: List[Point]


_ENDS = ("running", "done", "stopped", "failed", "dead")
_WORLD = {field[0] for field in _abi.shoal_sim_desc._fields_} - {"tensors", "tensor_count", "size"}


def sim(workers: Optional[int] = None, **options) -> Simulation:
    """A whole job in virtual time, as `shoal sim`: the protocols that run on real processes, links
    and compute times of a model. workers: 1 to 4096. With data=DIR (and model=...) the networks
    really train.

    options: sync, collective, codec, compute="fixed:ms=100,slow=2:5x", network="links:rate=1gbit",
    cluster=FILE, faults, iterations, until_s, seed ... as the fields of shoal_sim_desc
    (include/shoal/sim.h); with data those of shoal_train_desc, too (batch, lr, epochs ...).
    Endpoints that fail are no exception: their `end` says so; ValueError for what does not fit."""
    data = options.pop("data", None)
    world = {key: v for key, v in options.items() if key in _WORLD}
    rest = {key: v for key, v in options.items() if key not in _WORLD}
    both = {key: world[key] for key in ("model", "sync", "collective", "codec") if key in world}
    if data is None and rest:
        raise TypeError(f"shoal.sim has no option {', '.join(sorted(rest))} without data=DIR")
    desc = struct(_abi.shoal_sim_desc, workers=workers, **world)
    handle = C.c_void_p()
    if data is None:
        dll.shoal_sim_create(C.byref(desc), C.byref(handle))
    else:
        rest.setdefault("seed", world.get("seed"))
        training = struct(_abi.shoal_train_desc, data=data, **both, **rest)
        dll.shoal_train_in_virtual_time(C.byref(training), C.byref(desc), C.byref(handle))
    try:
        return _run(handle)
    finally:
        dll.shoal_sim_destroy(handle)


def _run(handle) -> Simulation:
    try:
        dll.shoal_sim_run(handle)
    except Exception:
        if not any(e.end in ("failed", "stopped", "dead") for e in _endpoints(handle)):
            raise
    r, count = struct(_abi.shoal_sim_results), C.c_uint32()
    dll.shoal_sim_results_get(handle, C.byref(r))
    points = dll.shoal_sim_curve(handle, C.byref(count))
    return _taken(
        Simulation,
        r,
        duration_s=r.duration_ns * 1e-9,
        iteration_s=r.iteration_ns * 1e-9,
        utilisation=r.compute_ns / max(1, r.compute_ns + r.idle_ns),
        chosen=text(dll.shoal_sim_chosen(handle)),
        endpoints=_endpoints(handle),
        curve=[_taken(Point, points[i]) for i in range(count.value)],
    )


def _endpoints(handle) -> List[Endpoint]:
    found: List[Endpoint] = []
    while True:
        e = struct(_abi.shoal_sim_endpoint_results)
        try:
            dll.shoal_sim_endpoint_get(handle, len(found), C.byref(e))
        except ValueError:  # behind the last
            return found
        found.append(
            _taken(
                Endpoint,
                e,
                end=_ENDS[e.end],
                text=text(e.text),
                compute_s=e.compute_ns * 1e-9,
                idle_s=e.idle_ns * 1e-9,
            )
        )
