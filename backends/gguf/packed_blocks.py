"""The bytes of GGUF's blocks: the way back of ``exporter/sources/gguf/blocks.py``, written apart from it.

Layouts: llama.cpp's ``ggml/src/ggml-common.h``; what the bytes mean is judged by ``gguf.quants``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from edgec.backends.gguf.block_types import BLOCK, SUPER, BlockFields, BlockType, GridMatrix

BlockBytes = NDArray[np.uint8]
BlockNumbers = NDArray[Any]
_SUPERS = ("Q4_K", "Q5_K", "Q6_K")


def packed(matrix: GridMatrix, kind: BlockType) -> BlockBytes:
    """A matrix in a type that holds it: uint8 [rows, bytes of a row]."""
    parts = []
    for part in matrix.parts():
        held = kind.fields(part)
        assert held is not None, kind.name
        parts.append(_PACKED[kind.name](_by_block(held, kind.name)).reshape(len(part.codes), -1))
    return np.concatenate(parts)


def _by_block(held: BlockFields, name: str) -> Mapping[str, BlockNumbers]:
    """Each field with a row for each block: codes [blocks, 32 or 256], scales [blocks, 1] or [blocks, groups]."""
    size = SUPER if name in _SUPERS else BLOCK
    blocks = held.codes.numel() // size
    named = {field.name: getattr(held, field.name) for field in fields(held)}
    return {key: value.reshape(blocks, -1).numpy() for key, value in named.items() if isinstance(value, Tensor)}


def _joined(parts: Sequence[BlockNumbers]) -> BlockBytes:
    return np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in parts], axis=1)


def _low(codes: BlockNumbers) -> BlockNumbers:
    return (codes & 15).astype(np.uint8)


def _nibbles(codes: BlockNumbers, together: int = BLOCK) -> BlockBytes:
    """Low four bits: of every so many codes, the first half in low nibbles and the second in high ones."""
    halves = _low(codes).reshape(len(codes), -1, 2, together // 2)
    result: BlockBytes = (halves[:, :, 0] | halves[:, :, 1] << 4).reshape(len(codes), -1)
    return result


def _fifth_bits(codes: BlockNumbers) -> BlockBytes:
    """The fifth bits of 32 codes one after the other in four bytes."""
    return np.packbits((codes >> 4 & 1).astype(np.uint8), axis=1, bitorder="little")


def _q4_0(block: Mapping[str, BlockNumbers]) -> BlockBytes:
    return _joined([block["d"], _nibbles(block["codes"] + 8)])


def _q4_1(block: Mapping[str, BlockNumbers]) -> BlockBytes:
    return _joined([block["d"], block["dmin"], _nibbles(block["codes"])])


def _q5_0(block: Mapping[str, BlockNumbers]) -> BlockBytes:
    codes = block["codes"] + 16
    return _joined([block["d"], _fifth_bits(codes), _nibbles(codes)])


def _q5_1(block: Mapping[str, BlockNumbers]) -> BlockBytes:
    return _joined([block["d"], block["dmin"], _fifth_bits(block["codes"]), _nibbles(block["codes"])])


def _q8_0(block: Mapping[str, BlockNumbers]) -> BlockBytes:
    return _joined([block["d"], block["codes"].astype(np.int8)])


def _six_bits(s: BlockNumbers, m: BlockNumbers) -> BlockBytes:
    """Eight scales and eight minima of six bits in twelve bytes: the first four whole, the others in two parts."""
    s, m = s.astype(np.uint8), m.astype(np.uint8)
    first = s[:, :4] | s[:, 4:] >> 4 << 6
    second = m[:, :4] | m[:, 4:] >> 4 << 6
    return np.concatenate([first, second, s[:, 4:] & 15 | (m[:, 4:] & 15) << 4], axis=1)


def _q4_k(block: Mapping[str, BlockNumbers]) -> BlockBytes:
    head = [block["d"], block["dmin"], _six_bits(block["s"], block["m"])]
    return _joined([*head, _nibbles(block["codes"], 2 * BLOCK)])


def _q5_k(block: Mapping[str, BlockNumbers]) -> BlockBytes:
    codes = block["codes"]
    # Bit i of byte j is the fifth of value 32 i + j.
    fifths = (codes >> 4 & 1).astype(np.uint8).reshape(len(codes), 8, BLOCK)
    high = (fifths << np.arange(8, dtype=np.uint8)[:, None]).sum(1, dtype=np.uint8)
    return _joined([block["d"], block["dmin"], _six_bits(block["s"], block["m"]), high, _nibbles(codes, 2 * BLOCK)])


def _q6_k(block: Mapping[str, BlockNumbers]) -> BlockBytes:
    codes = block["codes"] + 32
    pairs = (codes >> 4 & 3).astype(np.uint8).reshape(len(codes), 2, 4, BLOCK)
    high = (pairs << np.array([0, 2, 4, 6], np.uint8)[:, None]).sum(2, dtype=np.uint8).reshape(len(codes), -1)
    return _joined([_nibbles(codes, 4 * BLOCK), high, block["s"].astype(np.int8), block["d"]])


_PACKED: Mapping[str, Callable[[Mapping[str, BlockNumbers]], BlockBytes]] = {
    **{"Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q8_0": _q8_0},
    **{"Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k},
}
