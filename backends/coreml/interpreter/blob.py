"""A package's weight file (``weight.bin``): 64-byte records, each naming where its packed bytes lie."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgec.backends.coreml.interpreter.element_types import ElementType
from edgec.backends.coreml.interpreter.proto import not_a_package

_SENTINEL = 0xDEADBEEF
_RECORD = struct.Struct("<IIQQ")


class WeightFile:
    """A weight file mapped into memory, so that only the requested weights are read from the disk."""

    def __init__(self, path: Path) -> None:
        """Map the weight file at ``path``.

        Raises:
            InputError: E421, it cannot be read.
        """
        self.path = path
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as cause:
            raise not_a_package(path, f"the weights cannot be read: {cause}") from cause

    def bytes_at(self, offset: int) -> NDArray[np.uint8]:
        """The bytes of the record at ``offset``, uint8 [bytes].

        Raises:
            InputError: E421, there is no record.
        """
        if offset + _RECORD.size > len(self._map):
            raise not_a_package(self.path, f"there is no weight at byte {offset}")
        sentinel, _, size, start = _RECORD.unpack_from(self._map, offset)
        if sentinel != _SENTINEL or start + size > len(self._map):
            raise not_a_package(self.path, f"there is no weight at byte {offset}")
        return np.frombuffer(self._map, dtype=np.uint8, count=size, offset=start)


def decoded(raw: NDArray[np.uint8], element: ElementType, shape: tuple[int, ...]) -> Tensor:
    """Decode bytes into a tensor of ``shape`` in the type's held dtype.

    Args:
        raw: little-endian values; below 8 bits packed from the least significant bit on.
        element: their type.
        shape: its product is the number of values; what follows them is padding.
    """
    count = int(np.prod(shape, dtype=np.int64))
    if element.packed:
        return torch.from_numpy(unpacked(raw, element.bits, count, element.signed)).reshape(shape)
    used = np.ascontiguousarray(raw[: count * element.bits // 8])
    if not element.signed and element.bits in (16, 32, 64):
        wide = used.view(f"<u{element.bits // 8}")
        return torch.from_numpy(wide.astype(f"i{torch.empty(0, dtype=element.held).element_size()}")).reshape(shape)
    return torch.from_numpy(used.copy()).view(element.held).reshape(shape)


def unpacked(raw: NDArray[np.uint8], bits: int, count: int, signed: bool = False) -> NDArray[np.uint8 | np.int8]:
    """``count`` values of ``bits`` bits each, as uint8 (int8 when ``signed``); value i starts at bit i * bits."""
    spread = np.unpackbits(raw, bitorder="little", count=count * bits).reshape(count, bits)
    values = np.packbits(spread, axis=1, bitorder="little")[:, 0]
    if not signed:
        return values
    sign = np.uint8(1 << (bits - 1))
    return ((values ^ sign).astype(np.int16) - int(sign)).astype(np.int8)
