# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries as an address and a count, without a copy."""

import ctypes as C

# Formats of the buffer protocol and NumPy's type strings that are float32 here.
_FLOAT32 = ("f", "<f", "=f", "@f", "<f4", "=f4")


class Buffer:
    """float32[count] at address; `owner` keeps it alive."""

    __slots__ = ("address", "count", "owner")

    def __init__(self, address, count, owner):
        self.address, self.count, self.owner = address, count, owner


def _refuse(array, why):
    name = f"{type(array).__module__}.{type(array).__name__}"
    return TypeError(f"a {name} that {why} cannot travel: it takes contiguous float32")


def _tensor(array):
    if str(array.dtype) != "torch.float32":
        raise _refuse(array, f"holds {array.dtype}")
    if array.layout.__str__() != "torch.strided" or array.device.type != "cpu":
        raise _refuse(array, f"is {array.layout} on {array.device}")
    if not array.is_contiguous():
        raise _refuse(array, "is not contiguous")
    return Buffer(array.data_ptr(), array.numel(), array)


_HALF = ("torch.float16", "torch.bfloat16")


def staging_of(array):
    """The staging of the device that a PyTorch tensor is on; None: it is in the host's memory."""
    device = getattr(array, "device", None)
    if not hasattr(device, "type") or not hasattr(array, "data_ptr"):
        return None
    from . import _staging

    staging = _staging.of(array)
    if staging is not None:
        if str(array.dtype) not in (*_HALF, "torch.float32"):
            raise _refuse(array, f"holds {array.dtype}")
        if array.layout.__str__() != "torch.strided" or not array.is_contiguous():
            raise _refuse(array, "is not contiguous")
    return staging


def as_float32(array):
    """The array itself, or a float32 copy of a PyTorch tensor of a half type."""
    if hasattr(array, "data_ptr") and str(getattr(array, "dtype", None)) in _HALF:
        return array.detach().float().contiguous()
    return array


def of(array, writable=True):
    """A torch tensor, a NumPy array or anything with a writable float32 buffer. TypeError says what
    is wrong with it."""
    if hasattr(array, "data_ptr") and hasattr(array, "is_contiguous"):
        return _tensor(array)
    interface = getattr(array, "__array_interface__", None)
    if interface is not None:
        address, read_only = interface["data"]
        if interface["typestr"] not in _FLOAT32:
            raise _refuse(array, f"holds {interface['typestr']}")
        if read_only and writable:
            raise _refuse(array, "is read-only")
        if not array.flags["C_CONTIGUOUS"]:
            raise _refuse(array, "is not contiguous")
        return Buffer(address, array.size, array)
    try:
        view = memoryview(array)
    except TypeError:
        raise _refuse(array, "has no buffer") from None
    if view.format not in _FLOAT32 or not view.c_contiguous:
        raise _refuse(array, f"has a buffer of format '{view.format}'")
    if view.readonly:
        if writable:
            raise _refuse(array, "is read-only")
        copy = (C.c_float * (view.nbytes // 4)).from_buffer_copy(view.cast("B"))
        return Buffer(C.addressof(copy), len(copy), copy)
    held = (C.c_float * (view.nbytes // 4)).from_buffer(view.cast("B"))
    return Buffer(C.addressof(held), len(held), held)


def scale(array, factor):
    """array *= factor in place, whatever it is."""
    if hasattr(array, "mul_"):
        array.mul_(factor)
    elif hasattr(array, "__array_interface__"):
        array *= factor
    else:
        for i, value in enumerate(array):
            array[i] = value * factor
