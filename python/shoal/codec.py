# SPDX-License-Identifier: Apache-2.0
"""Codecs on arrays: `shoal.Codec("terngrad").encode(array)`. Needs NumPy for what it returns."""

import ctypes as C
from typing import List, Optional

from . import _abi, _buffers
from ._errors import CorruptData
from ._library import dll, text

_TRAITS = {
    name[len("SHOAL_CODEC_") :].lower(): getattr(_abi, name)
    for name in dir(_abi)
    if name.startswith("SHOAL_CODEC_")
}


def names() -> list:
    """Every codec that this library knows."""
    found: List[str] = []
    while True:
        name = text(dll.shoal_codec_row_name(len(found)))
        if not name:
            return found
        found.append(name)


class Codec:
    """One codec, opened from a spec string ("eden:bits=2"). Pure: the same array, seed and stream
    give the same bytes on every machine. Any thread may use it."""

    def __init__(self, spec: str):
        self._handle = C.c_void_p()
        dll.shoal_codec_open(spec.encode(), C.byref(self._handle))

    def __del__(self):
        if getattr(self, "_handle", None) and dll is not None:
            dll.shoal_codec_close(self._handle)

    def __repr__(self):
        return f"shoal.Codec({self.spec!r})"

    @property
    def name(self) -> str:
        """Name of the row: "eden"."""
        return text(dll.shoal_codec_name(self._handle))

    @property
    def spec(self) -> str:
        """Canonical spec: the name and every key that differs from its default."""
        return text(dll.shoal_codec_spec(self._handle))

    @property
    def traits(self) -> frozenset:
        """What it promises or asks for: "lossless", "unbiased", "measure" ..."""
        bits = dll.shoal_codec_traits(self._handle)
        return frozenset(name for name, bit in _TRAITS.items() if bits & bit)

    @property
    def error_bound(self) -> float:
        """Largest |decoded - source| promised where |source| < 1; inf if none is."""
        return dll.shoal_codec_error_bound(self._handle)

    @property
    def variance(self) -> float:
        """Promised E|decoded - x|^2 / |x|^2 of Gaussian values; inf if none is."""
        return dll.shoal_codec_variance(self._handle)

    def bytes_per_elem(self, parts: int = 1) -> float:
        """Bytes per element of sums of `parts` ranks: exact of fixed-rate codecs, else typical."""
        return dll.shoal_codec_bytes_per_elem(self._handle, parts)

    def carried_by(self, collective: str) -> bool:
        """Whether an all-reduce by this collective carries it."""
        try:
            dll.shoal_codec_carried(self.spec.encode(), collective.encode())
        except ValueError:
            return False
        return True

    def _at(self, count, parts, shared, seed, stream):
        tensor = _abi.shoal_tensor(key=1, count=count, lr_scale=1.0)
        at = _abi.shoal_codec_at(parts=parts, seed=seed, stream=stream)
        at.tensor = C.pointer(tensor)
        if shared is not None:
            at.shared = _buffers.of(shared, writable=False).address
        return at, tensor

    def measure(self, array):
        """float32 values that ranks share before they encode (their maximum counts); empty of
        codecs without the trait "measure"."""
        import numpy

        source = _buffers.of(array, writable=False)
        found = numpy.zeros(dll.shoal_codec_measure_count(self._handle), numpy.float32)
        if found.size:
            tensor = _abi.shoal_tensor(key=1, count=source.count, lr_scale=1.0)
            dll.shoal_codec_measure(
                self._handle, C.byref(tensor), source.address, found.ctypes.data
            )
        return found

    def encode(
        self, array, *, parts: int = 1, shared=None, seed: int = 1, stream: int = 0
    ) -> bytes:
        """The coded bytes of float32 array (any shape, contiguous). parts: how many ranks' values
        it is the sum of; shared: of measure(), the maximum over all ranks, None: this array's own;
        seed, stream: of what is random. ValueError of what has no finite code."""
        source = _buffers.of(array, writable=False)
        if shared is None and "measure" in self.traits:
            shared = self.measure(array)
        at, _tensor = self._at(source.count, parts, shared, seed, stream)
        capacity = dll.shoal_codec_bound(self._handle, source.count, parts)
        coded, written = C.create_string_buffer(max(1, capacity)), C.c_size_t()
        dll.shoal_codec_encode(
            self._handle,
            C.byref(at),
            source.address,
            source.count,
            C.addressof(coded),
            capacity,
            C.byref(written),
        )
        return coded.raw[: written.value]

    def decode(
        self,
        data: bytes,
        count: int,
        *,
        parts: int = 1,
        shared=None,
        seed: int = 1,
        stream: int = 0,
        out: Optional[object] = None,
        add: bool = False,
    ):
        """float32[count] from data, coded bytes; into `out` if given, added to it with add. parts,
        shared, seed and stream as they were to encode(). CorruptData of bytes that no encoder wrote
        for so many elements; out is undefined then."""
        import numpy

        result = numpy.zeros(count, numpy.float32) if out is None else out
        target = _buffers.of(result)
        if target.count != count:
            raise ValueError(f"out holds {target.count} elements, count is {count}")
        at, _tensor = self._at(count, parts, shared, seed, stream)
        read = C.c_size_t()
        held = C.create_string_buffer(data, max(1, len(data)))
        dll.shoal_codec_decode(
            self._handle,
            C.byref(at),
            C.addressof(held),
            len(data),
            target.address,
            count,
            add,
            C.byref(read),
        )
        if read.value != len(data):
            raise CorruptData(
                f"{self.spec}: {count} elements are the first {read.value} of {len(data)} bytes"
            )
        return result
