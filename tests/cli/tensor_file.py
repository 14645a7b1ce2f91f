# SPDX-License-Identifier: Apache-2.0
"""Files of safetensors by the format's description, without its library: what tests compare ours
with. https://huggingface.co/docs/safetensors"""
import json
import struct

KINDS = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I16": "<i2", "I64": "<i8"}


def parts(path):
    """({name: (kind, shape, bytes)}, the file's own metadata)"""
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    about = head.pop("__metadata__", {})
    return {name: (one["dtype"], one["shape"], data[slice(*one["data_offsets"])])
            for name, one in head.items()}, about  # fmt: skip


def read(path):
    """{name: NumPy array}, to write to."""
    import numpy

    return {name: numpy.frombuffer(raw, KINDS[kind]).reshape(shape).copy()
            for name, (kind, shape, raw) in parts(path)[0].items()}  # fmt: skip


def write(path, arrays, about=None, kind=None):
    """NumPy arrays by name. about: metadata; kind: what they are said to be, for those (BF16) that
    NumPy has no type for."""
    said = {kind: word for word, kind in KINDS.items()}
    head, raws, at = {"__metadata__": about} if about else {}, [], 0
    for name, array in arrays.items():
        raw = array.tobytes()
        head[name] = {"dtype": kind or said[array.dtype.str], "shape": list(array.shape),
                      "data_offsets": [at, at + len(raw)]}  # fmt: skip
        at += len(raw)
        raws.append(raw)
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(raws))
