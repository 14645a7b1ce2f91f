# SPDX-License-Identifier: Apache-2.0
"""Shoal: distributed training that says less on the wire and waits for nobody it need not wait for.

    import shoal
    shoal.ddp(model, codec="eden:bits=2,ef")        # PyTorch, behind DistributedDataParallel
    optimizer = shoal.wrap(optimizer, sync="diloco")  # PyTorch, without it

    shoal.allreduce(array)                          # NumPy and whatever has a float32 buffer
    shoal.Codec("terngrad").encode(array)
    shoal.predict("lenet", cluster="lab.json", workers=8)

Pure Python over the C library's public ABI (ctypes); PyTorch and NumPy are used where they are
installed. Failures are exceptions below shoal.Error that name rank, host, operation and reason."""

import sys as _sys

from ._comm import Comm, Tensor, View, under_launcher
from ._default import allgather, allreduce, barrier, broadcast, close, comm, init, rank, world_size
from ._errors import (
    AuthenticationFailed,
    Cancelled,
    CorruptData,
    DeadlinePassed,
    EpochChanged,
    Error,
    Forked,
    InternalError,
    InvalidArgument,
    IOFailed,
    Mismatch,
    NotFinite,
    NotSupported,
    OutOfMemory,
    PeerLost,
    SystemFailed,
    VersionMismatch,
)
from ._library import dll as _dll
from .codec import Codec
from .codec import names as codecs

__version__ = _dll.shoal_version().decode()

# What needs PyTorch or is rarely wanted is imported when it is first named.
_LATER = {
    "ddp": ".torch_ddp",
    "comm_hook": ".torch_ddp",
    "wrap": ".torch_sync",
    "elastic": ".torch_elastic",
    "fsdp": ".torch_fsdp",
    **dict.fromkeys(("CirculantLinear", "CirculantConv2d", "convert"), ".circulant"),
    **dict.fromkeys(("train", "sim"), ".trainer"),
    **dict.fromkeys(("evaluate", "export"), ".deploy"),
    "launch": ".launching",
    "RankFailed": ".launching",
    **dict.fromkeys(("predict", "sensitivity", "search", "partition", "network"), ".plan"),
}


def __getattr__(name):
    if name in _LATER:
        import importlib

        return getattr(importlib.import_module(_LATER[name], __name__), name)
    raise AttributeError(f"module 'shoal' has no attribute {name!r}")


if "torch" in _sys.modules and _sys.modules["torch"].distributed.is_available():
    from . import torch_process_group

    torch_process_group.register()
