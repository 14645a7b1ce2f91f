# SPDX-License-Identifier: Apache-2.0
"""Runs an ONNX file in double with PyTorch's operations: a reader of the wire format, and the
operators that `shoal export --onnx` writes, each as the format's page says. For tests."""
import struct

import numpy
import torch
import torch.nn.functional as F


def fields(data):
    """(number, value) of a protobuf message, in order: ints, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
            value -= (value >> 63) << 64  # int64
        elif kind == 5:
            value = data[at:at + 4]
            at += 4
        else:
            assert kind == 2, f"wire type {kind}"
            size = varint()
            value = data[at:at + size]
            assert len(value) == size, "cut off"
            at += size
        yield key >> 3, value


def all_of(data, number):
    return [value for n, value in fields(data) if n == number]


def text(data, number):
    return [value.decode() for value in all_of(data, number)]


def tensor(data):
    kind = {1: "<f4", 7: "<i8"}[all_of(data, 2)[0]]
    array = numpy.frombuffer(all_of(data, 9)[0], kind).reshape(all_of(data, 1))
    return torch.from_numpy(array.astype("f8" if kind == "<f4" else "i8"))


def attribute(data):
    """AttributeProto: its type says which field holds the value."""
    kind = all_of(data, 20)[0]
    value = {1: lambda: struct.unpack("<f", all_of(data, 2)[0])[0],
             2: lambda: all_of(data, 3)[0],
             7: lambda: all_of(data, 8)}[kind]()  # fmt: skip
    return text(data, 1)[0], value


class Model:
    """A file: its graph, what goes in and out, its metadata."""

    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        (graph,) = all_of(data, 7)
        self.opset = [all_of(one, 2)[0] for one in all_of(data, 8)]
        self.about = {text(one, 1)[0]: (text(one, 2) + [""])[0] for one in all_of(data, 14)}
        self.weights = {text(one, 8)[0]: tensor(one) for one in all_of(graph, 5)}
        self.nodes = [(text(n, 4)[0], text(n, 1), text(n, 2), dict(map(attribute, all_of(n, 5))))
                      for n in all_of(graph, 1)]  # fmt: skip
        shape = all_of(all_of(all_of(all_of(graph, 11)[0], 2)[0], 1)[0], 2)[0]
        self.shape = [(all_of(one, 1) + [-1])[0] for one in all_of(shape, 1)]  # -1: the batch
        self.input, self.output = (text(all_of(graph, number)[0], 1)[0] for number in (11, 12))

    def run(self, value):
        values = dict(self.weights, **{self.input: value})
        for op, inputs, outputs, attributes in self.nodes:
            found = OPERATORS[op]([values[name] for name in inputs], attributes)
            for name, one in zip(outputs, found if isinstance(found, tuple) else (found,)):
                assert name not in values, f"{name} twice"
                values[name] = one
        return values[self.output]


def padded(x, a, fill):
    top, left, bottom, right = a["pads"]
    return F.pad(x, (left, right, top, bottom), value=fill)


def mean_pool(x, a):
    """Padding does not count, unless it is said to."""
    if a.get("count_include_pad"):
        return F.avg_pool2d(padded(x, a, 0), a["kernel_shape"], a["strides"])
    window = {"kernel_size": a["kernel_shape"], "stride": a["strides"], "divisor_override": 1}
    return (F.avg_pool2d(padded(x, a, 0), **window) /
            F.avg_pool2d(padded(torch.ones_like(x), a, 0), **window))  # fmt: skip


def gemm(v, a):
    assert a == {"transB": 1}
    return v[0] @ v[1].T + (v[2] if len(v) > 2 else 0)


def reshape(v, a):
    del a
    return v[0].reshape([v[0].shape[i] if n == 0 else n for i, n in enumerate(v[1].tolist())])


def gather(v, a):
    axis = a.get("axis", 0)
    shape = v[0].shape[:axis] + v[1].shape + v[0].shape[axis + 1:]
    return v[0].index_select(axis, v[1].flatten()).reshape(shape)


def batch_norm(v, a):
    x, scale, shift, mean, variance = v
    return F.batch_norm(x, mean, variance, scale, shift, eps=a["epsilon"])


def layer_norm(v, a):
    assert a["axis"] == -1
    shift = v[2] if len(v) > 2 else None
    return F.layer_norm(v[0], v[0].shape[-1:], v[1], shift, a["epsilon"])


OPERATORS = {
    "Identity": lambda v, a: v[0],
    "Flatten": lambda v, a: v[0].flatten(1),
    "Gemm": gemm,
    "Conv": lambda v, a: F.conv2d(padded(v[0], a, 0), *v[1:], stride=a["strides"],
                                  groups=a["group"]),
    "LRN": lambda v, a: F.local_response_norm(v[0], a["size"], a["alpha"], a["beta"], a["bias"]),
    "MaxPool": lambda v, a: F.max_pool2d(padded(v[0], a, -float("inf")), a["kernel_shape"],
                                         a["strides"]),
    "AveragePool": lambda v, a: mean_pool(v[0], a),
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "Relu": lambda v, a: F.relu(v[0]),
    "Tanh": lambda v, a: torch.tanh(v[0]),
    "Sigmoid": lambda v, a: torch.sigmoid(v[0]),
    "Erf": lambda v, a: torch.erf(v[0]),
    "Sqrt": lambda v, a: torch.sqrt(v[0]),
    "Neg": lambda v, a: -v[0],
    "Add": lambda v, a: v[0] + v[1],
    "Mul": lambda v, a: v[0] * v[1],
    "Div": lambda v, a: v[0] // v[1] if v[0].dtype == torch.int64 else v[0] / v[1],
    "Mod": lambda v, a: v[0] % v[1],
    "MatMul": lambda v, a: v[0] @ v[1],
    "Softmax": lambda v, a: v[0].softmax(a["axis"]),
    "ReduceMean": lambda v, a: v[0].mean(a["axes"], keepdim=a.get("keepdims", 1) == 1),
    "ReduceProd": lambda v, a: v[0].prod(a["axes"][0]),
    "Transpose": lambda v, a: v[0].permute(a["perm"]),
    "Reshape": reshape,
    "Gather": gather,
    "Concat": lambda v, a: torch.cat(v, a["axis"]),
    "Split": lambda v, a: tuple(v[0].chunk(2, a["axis"])),
}  # fmt: skip
