# SPDX-License-Identifier: Apache-2.0
"""Planners: what will be fast, before anything runs. Answers are plain dataclasses."""

import ctypes as C
import dataclasses
from typing import Dict, List, Optional, Sequence, Tuple

from . import _abi
from ._library import dll, struct, text

_RECOMPUTE = {"none": 0, "selective": 1, "full": 2}


@dataclasses.dataclass(frozen=True)
class Prediction:
    """One training step. Seconds; parts add up to iteration_s. bottleneck says why, in words."""

    iteration_s: float
    low_s: float
    high_s: float
    samples_per_s: float
    parts: Dict[str, float]
    causes: Dict[str, float]
    sent_bytes: float
    memory_bytes: float
    capacity_bytes: float
    workers: int
    bottleneck: str


_PARTS = (
    "forward_s",
    "backward_s",
    "recompute_s",
    "update_s",
    "tensor_s",
    "tensor_again_s",
    "experts_s",
    "pipeline_s",
    "exposed_s",
    "bubble_s",
    "straggler_s",
    "other_s",
)


def _prediction(p) -> Prediction:
    return Prediction(
        p.iteration_s,
        p.low_s,
        p.high_s,
        p.samples_per_s,
        {name: getattr(p, name) for name in _PARTS},
        {name: getattr(p.causes, name) for name, _ in p.causes._fields_},
        p.sent_bytes,
        p.memory_bytes,
        p.capacity_bytes,
        p.workers,
        text(p.bottleneck),
    )


def _predict_desc(model, cluster, recompute, options):
    if recompute not in _RECOMPUTE:
        raise ValueError(f"recompute={recompute!r}: {', '.join(_RECOMPUTE)}")
    return struct(
        _abi.shoal_predict_desc,
        model=model,
        cluster=cluster,
        recompute=_RECOMPUTE[recompute],
        **options,
    )


def predict(model: str, cluster: str, recompute: str = "none", **options) -> Prediction:
    """Time of a step of `model` (a name or file) on the cluster of a file (docs/cluster.md).

    recompute: "none", "selective" or "full", what the backward pass computes again. options:
    workers, tensor, pipeline, batch, microbatch, sync, collective, codec, plan ... as
    `shoal predict` has them. ValueError of what does not fit; too little memory is no error."""
    desc = _predict_desc(model, cluster, recompute, options)
    found = struct(_abi.shoal_prediction)
    dll.shoal_predict(C.byref(desc), C.byref(found))
    return _prediction(found)


@dataclasses.dataclass(frozen=True)
class Sensitivity:
    """How the answer changes with the cluster: ratios of throughput with one more host, links or
    accelerators twice as fast; elasticities d ln(time) / d ln(speed)."""

    one_more: float
    faster_link: float
    faster_compute: float
    elasticity: Dict[str, float]
    link_for: Dict[int, float]


def sensitivity(model: str, cluster: str, recompute: str = "none", **options) -> Sensitivity:
    """What would help. link_for[p]: factor on all links at which compute is p % of the step. model,
    cluster, recompute and options: as of predict()."""
    desc = _predict_desc(model, cluster, recompute, options)
    s = struct(_abi.shoal_sensitivity)
    dll.shoal_predict_sensitivity(C.byref(desc), C.byref(s))
    elasticity = {
        name: getattr(s, "elasticity_" + name) for name in ("link", "compute", "memory", "latency")
    }
    return Sensitivity(
        s.one_more,
        s.faster_link,
        s.faster_compute,
        elasticity,
        dict(zip((50, 75, 90, 95), s.link_for)),
    )


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A configuration of a search: its settings, its prediction, why it loses to the best."""

    settings: Dict[str, object]
    prediction: Prediction
    why: str


_SETTINGS = (
    "workers",
    "tensor",
    "pipeline",
    "batch",
    "microbatch",
    "sync",
    "collective",
    "codec",
    "bucket_bytes",
)


def search(
    model: str, cluster: str, keep: int = 10, recompute: str = "none", **options
) -> List[Candidate]:
    """The `keep` best configurations, best first; what options name is kept as it is. model,
    cluster, recompute and options: as of predict(), and as the search of `shoal predict` has
    them."""
    desc = _predict_desc(model, cluster, recompute, options)
    handle = C.c_void_p()
    found: List[Candidate] = []
    dll.shoal_predict_search(C.byref(desc), keep, C.byref(handle))
    try:
        while dll.shoal_search_at(handle, len(found)):
            c = dll.shoal_search_at(handle, len(found)).contents
            values = {name: getattr(c.desc, name) for name in _SETTINGS}
            settings = {k: text(v) if isinstance(v, bytes) else v for k, v in values.items()}
            found.append(Candidate(settings, _prediction(c.prediction), text(c.why)))
    finally:
        dll.shoal_search_destroy(handle)
    return found


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer with weights; parallelism[h]: "data" or "model" at level h + 1."""

    name: str
    kind: str
    weights: int
    outputs: int
    parallelism: Tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Partition:
    """A plan: who splits what. elements: float32 values moved per step, all accelerators."""

    model: str
    batch: int
    levels: int
    elements: int
    level_elements: Tuple[int, ...]
    layers: Tuple[Layer, ...]
    why_not: Optional[str]  # why the trainer cannot run it; None: it can


def _number(name, count, given):
    names = [text(name(i)) for i in range(count)]
    if given not in names:
        raise ValueError(f"{given!r} is none of {', '.join(names)}")
    return names.index(given)


def partition(
    model: str,
    levels: int,
    batch: Optional[int] = None,
    method: str = "optimum",
    mode: str = "executed",
    given: Optional[str] = None,
    save: Optional[str] = None,
) -> Partition:
    """Which layers to split by data and which by model over 2^levels accelerators (HyPar).

    batch: samples of a step, of all accelerators together (256). method: "optimum", "greedy" (as
    published), "exhaustive" ... or "given", with given a row of layers per level, first cut first
    ("0011/0010"; 1: by model). mode: which costs count, "executed" (what `shoal train --plan`
    sends) or those of the paper's figures. save: a file for `shoal train --plan`. ValueError of
    names that are none, with those that are. Source: Song et al., "HyPar", HPCA 2019."""
    desc = struct(
        _abi.shoal_partition_desc,
        model=model,
        levels=levels,
        batch=batch,
        method=_number(dll.shoal_partition_method_name, 7, method),
        mode=_number(dll.shoal_partition_mode_name, 3, mode),
        given=given,
    )
    handle = C.c_void_p()
    dll.shoal_partition_create(C.byref(desc), C.byref(handle))
    try:
        if save is not None:
            dll.shoal_partition_save(handle, save.encode())
        return _partition(handle)
    finally:
        dll.shoal_partition_destroy(handle)


def _partition(handle) -> Partition:
    info, layer, moved = (
        struct(_abi.shoal_partition_info),
        struct(_abi.shoal_partition_layer_info),
        C.c_uint64(),
    )
    dll.shoal_partition_describe(handle, C.byref(info))
    layers, level_elements = [], []
    for i in range(info.layer_count):
        dll.shoal_partition_layer(handle, i, C.byref(layer))
        split = tuple("model" if layer.mask >> h & 1 else "data" for h in range(info.levels))
        layers.append(
            Layer(text(layer.name), text(layer.kind), layer.weights, layer.outputs, split)
        )
    for level in range(1, info.levels + 1):
        dll.shoal_partition_level(handle, level, C.byref(moved))
        level_elements.append(moved.value)
    return Partition(
        text(info.model),
        info.batch,
        info.levels,
        info.elements,
        tuple(level_elements),
        tuple(layers),
        text(info.why_not) or None,
    )


@dataclasses.dataclass(frozen=True)
class NetworkAnswer:
    """Bandwidths per dimension (GB/s), what they give and cost; bound: no network within the limits
    has a smaller objective."""

    bandwidth: Tuple[float, ...]
    time_ns: float
    cost: float
    objective: float
    bound: float
    gap: float
    equal_time_ns: float
    equal_cost: float
    utilisation: float
    price: Tuple[float, ...]


_OBJECTIVES = {"perf": 0, "perf-per-cost": 1, "cost": 2}


def network(
    network: str,
    workload: str,
    limits: Sequence[str] = (),
    objective: str = "perf",
    communicator: Optional[str] = None,
    cost: Optional[str] = None,
    fixed_cost: float = 0.0,
    overlap: bool = False,
    recompute: bool = False,
) -> NetworkAnswer:
    """The best bandwidth per network dimension for a workload (LIBRA).

    network: file or "ring:4, switch:32"; workload: ASTRA-sim text or Chakra trace; limits (GB/s,
    $): "sum == 1000", "b0 >= b1", "cost <= 1e7"; objective: perf, perf-per-cost or cost.
    communicator: who talks to whom, "tp=16" or LIBRA's file; cost: $ per GB/s and dimension, or
    LIBRA's file; fixed_cost: $ beside the network; overlap: weight gradients travel while input
    gradients do; recompute: forward collectives run twice. ValueError of what is none of these,
    CorruptData of files."""
    if objective not in _OBJECTIVES:
        raise ValueError(f"objective={objective!r}: {', '.join(_OBJECTIVES)}")
    job = _abi.shoal_network_job(
        workload.encode(), communicator.encode() if communicator else None, 1.0, None
    )
    desc = struct(
        _abi.shoal_network_desc,
        network=network,
        cost=cost,
        fixed_cost=fixed_cost,
        jobs=C.pointer(job),
        job_count=1,
        overlap=overlap,
        recompute=recompute,
    )
    texts = (C.c_char_p * max(1, len(limits)))(*[limit.encode() for limit in limits])
    question = struct(
        _abi.shoal_network_question,
        objective=_OBJECTIVES[objective],
        limits=C.cast(texts, C.POINTER(C.c_char_p)),
        limit_count=len(limits),
    )
    handle = C.c_void_p()
    info, answer = struct(_abi.shoal_network_info), struct(_abi.shoal_network_answer)
    dll.shoal_network_open(C.byref(desc), C.byref(handle))
    try:
        dll.shoal_network_describe(handle, C.byref(info))
        dll.shoal_network_solve(handle, C.byref(question), C.byref(answer))
    finally:
        dll.shoal_network_close(handle)
    plain = {
        f.name: getattr(answer, f.name)
        for f in dataclasses.fields(NetworkAnswer)
        if f.name not in ("bandwidth", "price")
    }
    return NetworkAnswer(
        bandwidth=tuple(answer.bandwidth[: info.dims]),
        price=tuple(answer.price[: info.dims]),
        **plain,
    )
