# SPDX-License-Identifier: Apache-2.0
"""What the tests of Hugging Face's files share: torch tensors in double, in files of float32, and
the scores of a net of ours."""
import os
import subprocess

import numpy
import torch

import shoal
import tensor_file


def write_file(path, tensors):
    arrays = {name: tensor.numpy().astype("<f4") for name, tensor in tensors.items()}
    tensor_file.write(path, arrays, {"format": "pt"})


def read_file(path, other=()):
    """By name, in double; without those named `other`."""
    return {name: torch.from_numpy(array.astype(float))
            for name, array in tensor_file.read(path).items() if name not in other}  # fmt: skip


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
