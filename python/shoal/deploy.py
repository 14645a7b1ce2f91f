# SPDX-License-Identifier: Apache-2.0
"""From a run to a small machine: a checkpoint on its test split, in float32 and in fixed point, and
as files that others read."""

import contextlib
import ctypes as C
import dataclasses
import os
from typing import List, Optional

from . import _abi
from ._library import dll, struct, text


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The test split. loss: mean, nats; accuracy: percent of labels (of sequences: of all frames);
    symbol_error_rate of sequences and bits_per_byte of texts, else NaN."""

    samples: int
    labels: int
    loss: float
    accuracy: float
    symbol_error_rate: float
    bits_per_byte: float


@dataclasses.dataclass(frozen=True)
class Matrix:
    """A matrix as hardware sees it: block_products of `block` words each time it is taken, `places`
    times a frame; weights in words."""

    name: str
    rows: int
    cols: int
    block: int
    block_products: int
    places: int
    weights: int
    multipliers: int


@contextlib.contextmanager
def _opened(run, **options):
    desc = struct(_abi.shoal_deploy_desc, **{"from": os.fspath(run)}, **options)
    handle = C.c_void_p()
    dll.shoal_deploy_open(C.byref(desc), C.byref(handle))
    try:
        yield handle
    finally:
        dll.shoal_deploy_close(handle)


def evaluate(run: str, *, bits: int = 0, **options) -> Evaluation:
    """A run folder's newest checkpoint, or a safetensors file, on the test split. bits: 0 for
    float32, 12 or 16 for fixed point. options: data (the run's own), model, batch, calibrate,
    samples."""
    result = struct(_abi.shoal_deploy_result)
    with _opened(run, **options) as handle:
        dll.shoal_deploy_evaluate(handle, bits, C.byref(result))
    return Evaluation(**{f.name: getattr(result, f.name) for f in dataclasses.fields(Evaluation)})


def export(
    run: str,
    out: Optional[str] = None,
    name: str = "net",
    *,
    bits: int = 12,
    safetensors: Optional[str] = None,
    onnx: Optional[str] = None,
    **options,
) -> List[Matrix]:
    """Write a trained network (run: its folder, or a safetensors file) for others: with out=DIR as
    C in fixed point of `bits` (12 or 16; NAME.h, NAME_weights.h, NAME.safetensors; what it would
    cost in hardware is the answer), with safetensors=FILE in float32 with PyTorch's names and
    shapes, with onnx=FILE in float32 for any runtime of ONNX. options as of evaluate()."""
    if out is None and safetensors is None and onnx is None:
        raise ValueError("export where to? out=DIR, safetensors=FILE or onnx=FILE")
    found: List[Matrix] = []
    with _opened(run, **options) as handle:
        if safetensors is not None:
            dll.shoal_deploy_weights(handle, os.fspath(safetensors).encode())
        if onnx is not None:
            dll.shoal_deploy_onnx(handle, os.fspath(onnx).encode())
        if out is not None:
            dll.shoal_deploy_export(handle, bits, os.fspath(out).encode(), name.encode())
        m = struct(_abi.shoal_deploy_matrix)
        while out is not None and dll.shoal_deploy_matrix_of(handle, len(found), C.byref(m)):
            fields = {f.name: getattr(m, f.name) for f in dataclasses.fields(Matrix)}
            found.append(Matrix(**dict(fields, name=text(m.name))))
    return found
