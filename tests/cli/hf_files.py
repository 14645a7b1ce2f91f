# SPDX-License-Identifier: Apache-2.0
"""What the tests of Hugging Face's files share: safetensors by its description, torch tensors in
double, and the scores of a net of ours."""
import json
import os
import struct
import subprocess

import numpy
import torch

import shoal


def write_file(path, tensors):
    head, parts, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in tensors.items():
        raw = numpy.ascontiguousarray(tensor.numpy(), "<f4").tobytes()
        head[name] = {"dtype": "F32", "shape": list(tensor.shape),
                      "data_offsets": [at, at + len(raw)]}  # fmt: skip
        at += len(raw)
        parts.append(raw)
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def read_file(path):
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    head.pop("__metadata__")
    return {name: torch.from_numpy(numpy.frombuffer(data[slice(*one["data_offsets"])], "<f4")
                                   .astype(float)).reshape(one["shape"])
            for name, one in head.items()}  # fmt: skip


def make(shapes, seed):
    """Values that float32 holds, in double; scales of norms about 1."""
    draw = numpy.random.default_rng(seed)
    return {name: torch.from_numpy((base + draw.normal(size=shape) * 0.3)
                                   .astype("<f4").astype(float))
            for name, (shape, base) in shapes.items()}  # fmt: skip


def scores(model, file, values):
    """What our net gives for one sample, as [frames or 1, classes]."""
    program = os.path.join(shoal.BUILD, "tests", "net_scores")
    said = subprocess.run([program, model, file], input="\n".join(map(str, values)),
                          capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
    assert said.returncode == 0, said.stderr
    return torch.tensor([float(line) for line in said.stdout.split()], dtype=torch.float64)
