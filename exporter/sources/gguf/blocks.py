"""The integers, scales and minima of GGUF's block types, bit for bit, in one form.

A group of values along a row is ``scale * code + minimum``, with ``scale = d * s`` and
``minimum = dmin * m``: float16 ``d`` and ``dmin`` for one or more groups, small integers ``s`` and ``m`` for each. What
indexes a table of whole numbers (IQ4_NL, MXFP4) is those numbers here. Layouts: llama.cpp's
``ggml/src/ggml-common.h``; what the values mean is judged by ``gguf.quants``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgec.bundle.gguf_header import GgufTensor
from edgec.exporter.sources.gguf.rows import PackedRows as PackedBytes
from edgec.exporter.sources.gguf.rows import raw_rows
from edgec.exporter.sources.packed.faults import bad_codes

UnpackedArray = NDArray[Any]
_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class IntegerBlocks:
    """A tensor as integers with two levels of scales.

    Attributes:
        type: GGUF's name of it.
        codes: int8 [rows, width].
        d: float16 [rows, blocks], the scale of each block's scales.
        s: int8 [rows, groups], the scale of each group in units of its block's ``d``.
        dmin: float16 [rows, blocks], the scale of each block's minima; None where all minima are 0.
        m: int8 [rows, groups], the minimum of each group in units of its block's ``dmin``; None as ``dmin``. Minima of
            the K types are subtracted in the file, so theirs are negative here.
        group: values in a group; a block has width / blocks values.
    """

    type: str
    codes: torch.Tensor
    d: torch.Tensor
    s: torch.Tensor
    dmin: torch.Tensor | None
    m: torch.Tensor | None
    group: int

    @property
    def scale(self) -> torch.Tensor:
        """The scale of each group, float32 [rows, groups]: exact for a product of float16 and at most 8 bits."""
        return _spread(self.d, self.s)

    @property
    def minimum(self) -> torch.Tensor | None:
        """The minimum of each group, float32 [rows, groups], or None where all are 0."""
        return None if self.dmin is None or self.m is None else _spread(self.dmin, self.m)

    def values(self) -> torch.Tensor:
        """All values, float32 [rows, width], in the order of operations of ``gguf.quants``."""
        codes = self.codes.float().unflatten(1, (-1, self.group))
        product, minimum = codes * self.scale.unsqueeze(2), self.minimum
        result: torch.Tensor = (product if minimum is None else product + minimum.unsqueeze(2)).flatten(1)
        return result

    def with_rows(self, order: torch.Tensor) -> IntegerBlocks:
        """The same with its rows in another order: [rows] int64, the row that comes to each place."""
        return replace(self, **{name: value[order] for name, value in self.tensors.items()})

    @property
    def tensors(self) -> dict[str, Any]:
        """Its tensors by the names above; those that are None are left out."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in held.items() if isinstance(value, torch.Tensor)}


def _spread(large: torch.Tensor, small: torch.Tensor) -> torch.Tensor:
    return large.float().repeat_interleave(small.shape[1] // large.shape[1], dim=1) * small.float()


def joined_blocks(parts: Sequence[IntegerBlocks], matrices: int) -> IntegerBlocks:
    """Parts of one type, each so many matrices one after the other, joined along the rows of each matrix."""
    split = [{name: value.unflatten(0, (matrices, -1)) for name, value in part.tensors.items()} for part in parts]
    joined: dict[str, Any] = {name: torch.cat([part[name] for part in split], 1).flatten(0, 1) for name in split[0]}
    return replace(parts[0], **joined)


def integer_blocks(tensor: GgufTensor) -> IntegerBlocks | None:
    """A tensor's integers as they are stored; None for float types and for IQ4_XS.

    Rows are unpacked a few million values at a time; of higher dimensions all but the last are rows.
    """
    return blocks_of_rows(tensor.type, raw_rows(tensor)) if tensor.type in _UNPACKED else None


def blocks_of_rows(kind: str, raw: PackedBytes) -> IntegerBlocks:
    """The integers of rows of an integer type, from their bytes [rows, bytes of a row]; at least one row.

    Raises:
        InputError: E819, a ternary weight has a fourth value.
    """
    size, unpack = _BYTES[kind], _UNPACKED[kind]
    # A byte holds five values at most.
    step = max(1, _AT_ONCE // (5 * raw.shape[1]))
    pieces = [_piece(raw[first : first + step], size, unpack) for first in range(0, len(raw), step)]
    codes, d, s, dmin, m = (_joined(parts) for parts in zip(*pieces, strict=True))
    assert codes is not None and d is not None and s is not None
    return IntegerBlocks(kind, codes, d, s, dmin, m, codes.shape[1] // s.shape[1])


def _joined(parts: tuple[UnpackedArray | None, ...]) -> torch.Tensor | None:
    arrays = [part for part in parts if part is not None]
    return torch.from_numpy(np.concatenate(arrays)) if arrays else None


Unpacked = tuple[UnpackedArray, UnpackedArray, UnpackedArray | None, UnpackedArray | None, UnpackedArray | None]


def _piece(raw: PackedBytes, size: int, unpack: Callable[[PackedBytes], Unpacked]) -> tuple[UnpackedArray | None, ...]:
    """Codes, d, s, dmin and m of some rows, each [rows, ...]."""
    rows = len(raw)
    codes, d, s, dmin, m = unpack(np.ascontiguousarray(raw).reshape(-1, size))
    ones = np.ones_like(d, dtype=np.int8)
    parts = (codes, d, ones if s is None else s, dmin, ones if dmin is not None and m is None else m)
    return tuple(None if part is None else part.reshape(rows, -1) for part in parts)


def _half(blocks: PackedBytes, at: int) -> UnpackedArray:
    """The float16 of each block at a byte: [blocks, 1]."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view(np.float16)


def _nibbles(packed: PackedBytes) -> PackedBytes:
    """Low halves of all bytes, then high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=1)


def _fifth(blocks: PackedBytes, at: int) -> PackedBytes:
    """The fifth bit of 32 codes, one bit after the other in four bytes."""
    return np.unpackbits(np.ascontiguousarray(blocks[:, at : at + 4]), axis=1, bitorder="little") << np.uint8(4)


def _signed(codes: UnpackedArray, offset: int) -> UnpackedArray:
    return (codes.astype(np.int16) - offset).astype(np.int8)


def _q4_0(blocks: PackedBytes) -> Unpacked:
    return _signed(_nibbles(blocks[:, 2:]), 8), _half(blocks, 0), None, None, None


def _q4_1(blocks: PackedBytes) -> Unpacked:
    return _nibbles(blocks[:, 4:]).view(np.int8), _half(blocks, 0), None, _half(blocks, 2), None


def _q5_0(blocks: PackedBytes) -> Unpacked:
    return _signed(_nibbles(blocks[:, 6:]) | _fifth(blocks, 2), 16), _half(blocks, 0), None, None, None


def _q5_1(blocks: PackedBytes) -> Unpacked:
    codes = _nibbles(blocks[:, 8:]) | _fifth(blocks, 4)
    return codes.view(np.int8), _half(blocks, 0), None, _half(blocks, 2), None


def _q8_0(blocks: PackedBytes) -> Unpacked:
    return np.ascontiguousarray(blocks[:, 2:]).view(np.int8), _half(blocks, 0), None, None, None


def _shifted(packed: PackedBytes, shifts: tuple[int, ...], width: int) -> PackedBytes:
    """Fields of a byte: of each ``width`` bytes all first fields, then all second ones and so on."""
    parts = packed.reshape(len(packed), -1, 1, width) >> np.array(shifts, np.uint8).reshape(1, 1, -1, 1)
    return parts.reshape(len(packed), -1)


def _six_bits(blocks: PackedBytes, at: int) -> tuple[UnpackedArray, UnpackedArray]:
    """Eight scales and eight minima of six bits in twelve bytes."""
    d, m, rest = (blocks[:, at + 4 * part : at + 4 * part + 4] for part in range(3))
    scales = np.concatenate([d & 63, (rest & 15) | ((d >> 2) & 48)], axis=1)
    minima = np.concatenate([m & 63, (rest >> 4) | ((m >> 2) & 48)], axis=1)
    return scales.view(np.int8), minima.view(np.int8)


def _q4_k(blocks: PackedBytes) -> Unpacked:
    scales, minima = _six_bits(blocks, 4)
    return _shifted(blocks[:, 16:], (0, 4), 32).view(np.int8) & 15, _half(blocks, 0), scales, _half(blocks, 2), -minima


def _q5_k(blocks: PackedBytes) -> Unpacked:
    scales, minima = _six_bits(blocks, 4)
    low = _shifted(blocks[:, 48:], (0, 4), 32) & 15
    high = _shifted(blocks[:, 16:48], tuple(range(8)), 32) & 1
    return (low | high << 4).view(np.int8), _half(blocks, 0), scales, _half(blocks, 2), -minima


def _q6_k(blocks: PackedBytes) -> Unpacked:
    low = _shifted(blocks[:, :128], (0, 4), 64) & 15
    high = _shifted(blocks[:, 128:192], (0, 2, 4, 6), 32) & 3
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8)
    return _signed(low | high << 4, 32), _half(blocks, 208), scales, None, None


def _q2_k(blocks: PackedBytes) -> Unpacked:
    codes = _shifted(blocks[:, 16:80], (0, 2, 4, 6), 32) & 3
    scales, minima = (blocks[:, :16] & 15).view(np.int8), (blocks[:, :16] >> 4).view(np.int8)
    return codes.view(np.int8), _half(blocks, 80), scales, _half(blocks, 82), -minima


def _q3_k(blocks: PackedBytes) -> Unpacked:
    low = _shifted(blocks[:, 32:96], (0, 2, 4, 6), 32) & 3
    # A bit of the mask that is not set takes four off.
    high = (_shifted(blocks[:, :32], tuple(range(8)), 32) & 1) ^ 1
    codes = low.view(np.int8) - (high << 2).view(np.int8)
    fours = _shifted(blocks[:, 96:104], (0, 4), 8) & 15
    twos = _shifted(blocks[:, 104:108], (0, 2, 4, 6), 4) & 3
    return codes, _half(blocks, 108), _signed(fours | twos << 4, 32), None, None


def _iq4_nl(blocks: PackedBytes) -> Unpacked:
    return _IQ4_VALUES[_nibbles(blocks[:, 2:])], _half(blocks, 0), None, None, None


def _mxfp4(blocks: PackedBytes) -> Unpacked:
    """Twice the values, under half the power of two; a block of zeros has a scale of 0 whatever its power is."""
    codes = _DOUBLED_VALUES[_nibbles(blocks[:, 1:])]
    with np.errstate(over="ignore"):
        d = np.ldexp(np.float32(1), blocks[:, :1].astype(np.int32) - HALF_BIAS).astype(np.float16)
    return codes, np.where(codes.any(1, keepdims=True), d, np.float16(0)), None, None, None


def _tq1_0(blocks: PackedBytes) -> Unpacked:
    """Five digits of base 3 in a byte, and four in each of the last four bytes."""
    fives, rest, fours = (_digits(blocks[:, a:b], b - a, n) for a, b, n in ((0, 32, 5), (32, 48, 5), (48, 52, 4)))
    return _signed(np.concatenate([fives, rest, fours], axis=1), 1), _half(blocks, 52), None, None, None


def _digits(packed: PackedBytes, width: int, count: int) -> PackedBytes:
    """Digits of base 3, the first ones of all bytes before the second ones; a byte is their fraction of 256."""
    turned = packed.reshape(len(packed), 1, width) * np.array([1, 3, 9, 27, 81], np.uint8)[:count, None]
    return ((turned.astype(np.uint16) * 3) >> 8).astype(np.uint8).reshape(len(packed), -1)


def _tq2_0(blocks: PackedBytes) -> Unpacked:
    codes = _shifted(blocks[:, :64], (0, 2, 4, 6), 32) & 3
    if (codes == 3).any():
        raise bad_codes("a matrix of type TQ2_0", "a weight has the code 3, and there are three values: 0, 1 and 2")
    return _signed(codes, 1), _half(blocks, 64), None, None, None


_IQ4_VALUES = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)
_DOUBLED_VALUES = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)
HALF_BIAS = 128
"""What is taken off the byte of an MXFP4 block to get the power of two of half its values."""
_UNPACKED: Mapping[str, Callable[[PackedBytes], Unpacked]] = {
    **{"Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q8_0": _q8_0},
    **{"Q2_K": _q2_k, "Q3_K": _q3_k, "Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k},
    **{"IQ4_NL": _iq4_nl, "MXFP4": _mxfp4, "TQ1_0": _tq1_0, "TQ2_0": _tq2_0},
}
_BYTES: Mapping[str, int] = {
    **{"Q4_0": 18, "Q4_1": 20, "Q5_0": 22, "Q5_1": 24, "Q8_0": 34},
    **{"Q2_K": 84, "Q3_K": 110, "Q4_K": 144, "Q5_K": 176, "Q6_K": 210},
    **{"IQ4_NL": 18, "MXFP4": 17, "TQ1_0": 54, "TQ2_0": 66},
}
