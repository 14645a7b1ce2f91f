# SPDX-License-Identifier: Apache-2.0
"""Block-circulant linear layers for PyTorch: k times fewer weights, less work and traffic."""

import ctypes as C
import math

import torch

from . import _abi
from ._library import dll, struct


class _Layer:
    """A layer of the library in memory that it keeps."""

    def __init__(self, in_features, out_features, block, batch):
        self.batch = batch
        self.desc = struct(
            _abi.shoal_circulant_desc,
            **{"in": in_features, "out": out_features},
            block=block,
            batch_max=batch,
            training=True,
        )
        size = C.c_size_t()
        dll.shoal_circulant_bytes(C.byref(self.desc), C.byref(size))
        self.memory = torch.zeros(size.value + 64, dtype=torch.uint8)
        start = -self.memory.data_ptr() % 64 + self.memory.data_ptr()
        self.handle = C.c_void_p()
        dll.shoal_circulant_init(C.byref(self.desc), start, C.byref(self.handle))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, layer):
        y = torch.empty(x.shape[0], layer.desc.out)
        dll.shoal_circulant_set_weights(layer.handle, weight.data_ptr())
        bias_at = None if bias is None else bias.data_ptr()
        dll.shoal_circulant_forward(layer.handle, x.data_ptr(), x.shape[0], bias_at, y.data_ptr())
        ctx.save_for_backward(x, weight)
        ctx.layer, ctx.has_bias = layer, bias is not None
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        layer, dy = ctx.layer, dy.contiguous()
        # The layer keeps the spectra of its latest forward call only, which may be another one.
        unused = torch.empty(x.shape[0], layer.desc.out)
        dll.shoal_circulant_set_weights(layer.handle, weight.data_ptr())
        dll.shoal_circulant_forward(layer.handle, x.data_ptr(), x.shape[0], None, unused.data_ptr())
        dx, dw = torch.empty_like(x), torch.empty_like(weight)
        dll.shoal_circulant_backward(
            layer.handle, dy.data_ptr(), x.shape[0], dx.data_ptr(), dw.data_ptr()
        )
        return dx, dw, dy.sum(0) if ctx.has_bias else None, None


class CirculantLinear(torch.nn.Module):
    """y = x C^T + bias, where C consists of circulant blocks of size `block` (k).

    weight: float32[ceil(out / k)][ceil(in / k)][k], the first column of each block. Equal to the
    dense product of dense() within 2e-6 (k <= 128). float32 on the CPU; any leading dimensions.
    Source: Ding et al., "CirCNN", MICRO 2017; the forward pass runs again in backward, so that one
    layer may be used several times in a network."""

    def __init__(self, in_features: int, out_features: int, block: int, bias: bool = True):
        super().__init__()
        self.in_features, self.out_features, self.block = in_features, out_features, block
        self._layer = _Layer(in_features, out_features, block, 1)  # refuses what does not fit
        p, q = -(-out_features // block), -(-in_features // block)
        self.weight = torch.nn.Parameter(torch.empty(p, q, block))
        self.bias = torch.nn.Parameter(torch.empty(out_features)) if bias else None
        self.reset_parameters()

    def reset_parameters(self):
        """As torch.nn.Linear: every entry of the expanded matrix is drawn alike."""
        limit = 1 / math.sqrt(self.in_features)
        for parameter in self.parameters():
            torch.nn.init.uniform_(parameter, -limit, limit)

    def forward(self, x):
        flat = x.reshape(-1, self.in_features).contiguous()
        if flat.dtype != torch.float32 or flat.device.type != "cpu":
            raise TypeError(
                f"a circulant layer takes float32 on the CPU, not {x.dtype}, {x.device}"
            )
        if flat.shape[0] > self._layer.batch:
            self._layer = _Layer(self.in_features, self.out_features, self.block, flat.shape[0])
        y = _Product.apply(flat, self.weight, self.bias, self._layer)
        return y.view(*x.shape[:-1], self.out_features)

    def dense(self) -> torch.Tensor:
        """The matrix itself, float32[out][in]."""
        matrix = torch.empty(self.out_features, self.in_features)
        weight = self.weight.detach().contiguous()
        dll.shoal_circulant_expand(C.byref(self._layer.desc), weight.data_ptr(), matrix.data_ptr())
        return matrix

    @torch.no_grad()
    def project(self, matrix: torch.Tensor) -> None:
        """Take the nearest block-circulant matrix of a dense float32[out][in]."""
        if matrix.shape != (self.out_features, self.in_features):
            raise ValueError(f"a matrix of {tuple(matrix.shape)} is not {self}")
        matrix = matrix.float().contiguous()
        dll.shoal_circulant_project(
            C.byref(self._layer.desc), matrix.data_ptr(), self.weight.data_ptr()
        )

    def extra_repr(self):
        return f"{self.in_features}, {self.out_features}, block={self.block}"

    def __getstate__(self):
        return {**self.__dict__, "_layer": None}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._layer = _Layer(self.in_features, self.out_features, self.block, 1)

    def __deepcopy__(self, memo):
        other = CirculantLinear(
            self.in_features, self.out_features, self.block, self.bias is not None
        )
        other.load_state_dict(self.state_dict())
        return other
