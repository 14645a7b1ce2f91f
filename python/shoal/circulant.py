# SPDX-License-Identifier: Apache-2.0
"""Block-circulant layers for PyTorch, linear ones and convolutions, and whole networks converted to
them: k times fewer weights, less work and traffic."""

import ctypes as C
import math
from typing import Callable, Optional

import torch

from . import _abi
from ._library import dll, struct


class _Layer:
    """A layer of the library in memory that it keeps."""

    def __init__(self, desc, bytes_of, init):
        self.desc = desc
        size = C.c_size_t()
        bytes_of(C.byref(desc), C.byref(size))
        self.memory = torch.zeros(size.value + 64, dtype=torch.uint8)
        start = -self.memory.data_ptr() % 64 + self.memory.data_ptr()
        self.handle = C.c_void_p()
        init(C.byref(desc), start, C.byref(self.handle))


def _linear(in_features, out_features, block, batch):
    desc = struct(
        _abi.shoal_circulant_desc,
        **{"in": in_features, "out": out_features},
        block=block,
        batch_max=batch,
        training=True,
    )
    return _Layer(desc, dll.shoal_circulant_bytes, dll.shoal_circulant_init)


def _check(x):
    if x.dtype != torch.float32 or x.device.type != "cpu":
        raise TypeError(f"a circulant layer takes float32 on the CPU, not {x.dtype}, {x.device}")


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

    x: float32[...][in_features], y: float32[...][out_features], without bias if that is False.
    weight: float32[ceil(out / k)][ceil(in / k)][k], the first column of each block. Equal to the
    dense product of dense() within 2e-6 (k <= 128). float32 on the CPU; any leading dimensions.
    Source: Ding et al., "CirCNN", MICRO 2017; the forward pass runs again in backward, so that one
    layer may be used several times in a network."""

    def __init__(self, in_features: int, out_features: int, block: int, bias: bool = True):
        super().__init__()
        self.in_features, self.out_features, self.block = in_features, out_features, block
        self._layer = _linear(in_features, out_features, block, 1)  # refuses what does not fit
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
        _check(flat)
        if flat.shape[0] > self._layer.desc.batch_max:
            self._layer = _linear(self.in_features, self.out_features, self.block, flat.shape[0])
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
        self._layer = _linear(self.in_features, self.out_features, self.block, 1)

    def __deepcopy__(self, memo):
        other = CirculantLinear(
            self.in_features, self.out_features, self.block, self.bias is not None
        )
        other.load_state_dict(self.state_dict())
        return other


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, layer, sides):
        y = torch.empty(x.shape[0], layer.desc.out, *sides)
        dll.shoal_circulant_conv_set_weights(layer.handle, weight.data_ptr())
        bias_at = None if bias is None else bias.data_ptr()
        dll.shoal_circulant_conv_forward(
            layer.handle, x.data_ptr(), x.shape[0], bias_at, y.data_ptr()
        )
        ctx.save_for_backward(x, weight)
        ctx.layer, ctx.has_bias = layer, bias is not None
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        layer, dy = ctx.layer, dy.contiguous()
        dll.shoal_circulant_conv_set_weights(layer.handle, weight.data_ptr())
        dx, dw = torch.empty_like(x), torch.empty_like(weight)
        dll.shoal_circulant_conv_backward(
            layer.handle, x.data_ptr(), dy.data_ptr(), x.shape[0], dx.data_ptr(), dw.data_ptr()
        )
        return dx, dw, dy.sum((0, 2, 3)) if ctx.has_bias else None, None, None


class CirculantConv2d(torch.nn.Module):
    """A convolution whose matrix from input to output channels is block-circulant for each tap of
    its square window.

    in_channels, out_channels, kernel_size (of a square), stride, padding, bias: as those of
    torch.nn.Conv2d. x: float32[count][in][height][width] on the CPU; weight:
    float32[kernel^2][ceil(out / k)][ceil(in / k)][k], taps row by row, the first column of each
    block (k = `block`, at most channels). Equal to the dense convolution of dense(). The library
    keeps memory for one size of image, and makes it anew for another. Source: Ding et al.,
    "CirCNN", MICRO 2017."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        *,
        block: int,
        bias: bool = True,
    ):
        super().__init__()
        self.in_channels, self.out_channels, self.block = in_channels, out_channels, block
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self._layer: Optional[_Layer] = None
        self._made(kernel_size, kernel_size)  # refuses what does not fit
        p, q = -(-out_channels // block), -(-in_channels // block)
        self.weight = torch.nn.Parameter(torch.empty(kernel_size * kernel_size, p, q, block))
        self.bias = torch.nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def _made(self, height, width):
        if self._layer and (self._layer.desc.height, self._layer.desc.width) == (height, width):
            return self._layer
        desc = struct(
            _abi.shoal_circulant_conv_desc,
            **{"in": self.in_channels, "out": self.out_channels},
            height=height,
            width=width,
            kernel=self.kernel_size,
            stride=self.stride,
            pad=self.padding,
            block=self.block,
            training=True,
        )
        make = dll.shoal_circulant_conv_bytes, dll.shoal_circulant_conv_init
        self._layer = _Layer(desc, *make)
        return self._layer

    def reset_parameters(self):
        """As torch.nn.Conv2d: every entry of the expanded matrices is drawn alike."""
        limit = 1 / math.sqrt(self.in_channels * self.kernel_size**2)
        for parameter in self.parameters():
            torch.nn.init.uniform_(parameter, -limit, limit)

    def forward(self, x):
        _check(x)
        if x.dim() != 4 or x.shape[1] != self.in_channels:
            raise ValueError(f"{self} takes [count][{self.in_channels}][height][width]")
        layer = self._made(x.shape[2], x.shape[3])
        sides = [(n + 2 * self.padding - self.kernel_size) // self.stride + 1 for n in x.shape[2:]]
        return _Convolution.apply(x.contiguous(), self.weight, self.bias, layer, sides)

    def _matrix(self):
        """The desc of one tap's matrix."""
        return _linear(self.in_channels, self.out_channels, self.block, 1).desc

    def dense(self) -> torch.Tensor:
        """The whole convolution's weight, float32[out][in][kernel][kernel]."""
        side, weight = self.kernel_size, self.weight.detach().contiguous()
        taps = torch.empty(side * side, self.out_channels, self.in_channels)
        desc = self._matrix()
        for one, tap in zip(taps, weight):
            dll.shoal_circulant_expand(C.byref(desc), tap.data_ptr(), one.data_ptr())
        return taps.permute(1, 2, 0).reshape(self.out_channels, self.in_channels, side, side)

    @torch.no_grad()
    def project(self, weight: torch.Tensor) -> None:
        """Take the nearest block-circulant convolution of float32[out][in][kernel][kernel]."""
        side = self.kernel_size
        if weight.shape != (self.out_channels, self.in_channels, side, side):
            raise ValueError(f"a weight of {tuple(weight.shape)} is not {self}")
        taps = weight.float().reshape(self.out_channels, self.in_channels, side * side)
        desc = self._matrix()
        for tap, own in zip(taps.permute(2, 0, 1).contiguous(), self.weight):
            dll.shoal_circulant_project(C.byref(desc), tap.data_ptr(), own.data_ptr())

    def extra_repr(self):
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, block={self.block}"
        )

    def __getstate__(self):
        return {**self.__dict__, "_layer": None}

    def __deepcopy__(self, memo):
        other = CirculantConv2d(
            self.in_channels,
            self.out_channels,
            self.kernel_size,
            self.stride,
            self.padding,
            block=self.block,
            bias=self.bias is not None,
        )
        other.load_state_dict(self.state_dict())
        return other


def _of_linear(layer, block):
    if not block or block > min(layer.in_features, layer.out_features):
        return None
    other = CirculantLinear(
        layer.in_features, layer.out_features, block, bias=layer.bias is not None
    )
    other.project(layer.weight.detach())
    return other


def _of_convolution(layer, block):
    kernel, stride = layer.kernel_size, layer.stride
    plain = layer.groups == 1 and set(layer.dilation) == {1} and layer.padding_mode == "zeros"
    padding = layer.padding if isinstance(layer.padding, tuple) else (-1, -2)  # "same", "valid"
    alike = all(len(set(pair)) == 1 for pair in (kernel, stride, padding))
    if not block or not plain or not alike or not padding[0] < kernel[0]:
        return None
    if block > min(layer.in_channels, layer.out_channels):
        return None
    other = CirculantConv2d(
        layer.in_channels,
        layer.out_channels,
        kernel[0],
        stride[0],
        padding[0],
        block=block,
        bias=layer.bias is not None,
    )
    other.project(layer.weight.detach())
    return other


def convert(
    model: torch.nn.Module,
    block: int = 8,
    conv: Optional[int] = None,
    *,
    keep: Optional[Callable[[str, torch.nn.Module], bool]] = None,
) -> torch.nn.Module:
    """Replace linear layers by block-circulant ones with blocks of `block`, and convolutions with
    blocks of `conv` (None: as `block`; 0: not at all), in place; gives the model. Weights become
    the nearest block-circulant ones, biases stay: train on from there.

    The last layer of all, which gives the scores, stays whole, as does what has no such form
    (channels fewer than a block, groups, dilation, windows that are not square) and every layer for
    which keep(name, layer) is true. Shared layers are replaced by one."""
    kinds = (torch.nn.Linear, torch.nn.Conv2d)
    found = [(n, m) for n, m in model.named_modules() if type(m) in kinds]
    if not found:
        raise ValueError(f"{type(model).__name__} has no linear layers and no convolutions")
    others = {}
    for name, layer in found[:-1]:
        if keep is None or not keep(name, layer):
            of = _of_linear if isinstance(layer, torch.nn.Linear) else _of_convolution
            others[layer] = of(layer, block if of is _of_linear or conv is None else conv)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            other = others.get(child)
            if other is not None:
                if child.bias is not None:
                    other.bias.data.copy_(child.bias.data)
                setattr(parent, name, other.train(child.training))
    return model
