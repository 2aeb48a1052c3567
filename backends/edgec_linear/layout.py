"""Matrices of few bits in the order in which edgec's kernels read them (devices/runner/kernels/linear/matrix.h).

    codes [N, K], scales [N, G]      ==>      blocks of 16 rows (x86) or 8 (arm64), one after the other:
                                              per group:  codes, slice by slice of 32 values | bfloat16 scales
                                              then:       float32 scales where a row is one group

A kernel reads a block from its first byte to its last, so nothing is packed when the artifact is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

SLICE = 32
_CHUNK_ROWS = 4096


class BlockRows(IntEnum):
    """The rows of a block, which tell the processor family that the layout is made for."""

    X86 = 16
    ARM64 = 8

    @classmethod
    def of(cls, processor: str) -> BlockRows:
        """The layout for a processor family as ``platform.machine`` names it."""
        return cls.X86 if processor.lower() in ("x86_64", "amd64") else cls.ARM64


@dataclass(frozen=True)
class CodeGrid:
    """The meaning of a code: the value is ``step * code - offset``.

    Attributes:
        bits: 2, 3, 4 or 8 per code.
        step: distance of neighbouring values, 1 or 2, the powers of two that a shift by ``step - 1`` divides by.
        offset: what is subtracted.
    """

    bits: int
    step: int
    offset: int

    def codes(self, values: Tensor) -> Tensor:
        """Turn whole numbers of the grid into codes, uint8 of the same shape."""
        # Sums of bytes wrap around, so that all of -128 .. 127 come out right.
        return (values.to(torch.int8).view(torch.uint8) + self.offset) >> (self.step - 1)

    def values(self, codes: Tensor) -> Tensor:
        """Turn codes into the whole numbers that they stand for, int16 of the same shape."""
        return codes.to(torch.int16) * self.step - self.offset


SYMMETRIC = {bits: CodeGrid(bits, 1, 1 << bits - 1) for bits in (2, 3, 4, 8)}
BALANCED2 = CodeGrid(2, 2, 3)
TERNARY = CodeGrid(2, 1, 1)


@dataclass(frozen=True)
class PackedMatrix:
    """The shape of a matrix in a layout.

    Attributes:
        rows, width: as in ``aten.linear``'s weight [rows, width].
        group: values that share a scale, a multiple of 32 that divides the width; 0: the whole row.
        grid: the meaning of its codes.
        block_rows: the rows of a block.
    """

    rows: int
    width: int
    group: int
    grid: CodeGrid
    block_rows: BlockRows

    @property
    def slices(self) -> int:
        """The slices of 32 values in a row, the last one filled up."""
        return -(-self.width // SLICE)

    @property
    def groups(self) -> int:
        """The groups of a row."""
        return self.width // self.group if self.group else 1

    @property
    def block_bytes(self) -> int:
        """The bytes of a block of rows."""
        codes = self.slices * SLICE * self.grid.bits // 8
        return self.block_rows * (codes + (2 * self.groups if self.group else 4))

    @property
    def bytes(self) -> int:
        """The bytes of the whole matrix."""
        return -(-self.rows // self.block_rows) * self.block_bytes


def pack_matrix(shape: PackedMatrix, values: Tensor, scales: Tensor) -> Tensor:
    """Lay out a matrix.

    Args:
        shape: its shape and layout.
        values: whole numbers of the grid, int8 [rows, width].
        scales: float32 [rows, groups]; those of groups are rounded to bfloat16.

    Returns:
        uint8 [shape.bytes].
    """
    packed = torch.empty(shape.bytes, dtype=torch.uint8)
    done = 0
    # By rows, so that the intermediate tensors of a large lm_head stay small.
    for part, part_scales in zip(values.split(_CHUNK_ROWS), scales.split(_CHUNK_ROWS), strict=True):
        blocks = _pack_blocks(shape, part, part_scales)
        packed[done : done + blocks.numel()] = blocks.reshape(-1)
        done += blocks.numel()
    assert done == shape.bytes
    return packed


def _pack_blocks(shape: PackedMatrix, values: Tensor, scales: Tensor) -> Tensor:
    """Lay out some rows: uint8 [blocks, block_bytes]."""
    rows = values.shape[0]
    missing = -rows % shape.block_rows
    scales = scales.reshape(rows, shape.groups).float()
    codes = shape.grid.codes(values)
    if missing or shape.width % SLICE:
        codes = torch.nn.functional.pad(codes, (0, shape.slices * SLICE - shape.width, 0, missing))
    blocks = codes.shape[0] // shape.block_rows
    coded = _coded(shape, codes).reshape(blocks, shape.groups, -1)
    scales = torch.nn.functional.pad(scales, (0, 0, 0, missing))
    if not shape.group:
        return torch.cat((coded[:, 0], scales.reshape(blocks, -1).contiguous().view(torch.uint8)), dim=1)
    by_group = scales.reshape(blocks, shape.block_rows, shape.groups).transpose(1, 2).bfloat16().contiguous()
    return torch.cat((coded, by_group.view(torch.uint8)), dim=2).reshape(blocks, -1)


# The bytes 3 and 1 in every byte of a word.
_THREES, _ONES = ({t: int.from_bytes(bytes([b] * t.itemsize)) for t in (torch.int32, torch.int64)} for b in (3, 1))


def _coded(shape: PackedMatrix, codes: Tensor) -> Tensor:
    """The planes of every slice: uint8 [blocks, slices, bytes of a slice]."""
    if shape.block_rows is BlockRows.ARM64:
        codes = codes ^ (1 << shape.grid.bits - 1)
    words = _words(shape, codes)
    if shape.grid.bits == 3:
        low, high = words & _THREES[words.dtype], (words >> 2) & _ONES[words.dtype]
        return torch.cat((_plane(low, 2), _plane(high, 1)), dim=2)
    return _plane(words, shape.grid.bits)


def _words(shape: PackedMatrix, codes: Tensor) -> Tensor:
    """The codes vector by vector, those that stay together as one word: [blocks, slices, vectors, words of a vector].

    Words of 4 codes (x86) or 8 (arm64) are copied four to eight times as fast as bytes.
    """
    blocks = codes.shape[0] // shape.block_rows
    if shape.block_rows is BlockRows.X86:
        ordered = codes.contiguous().view(torch.int32).reshape(blocks, 16, shape.slices, 8).permute(0, 2, 3, 1)
        return ordered.reshape(blocks, shape.slices, 8, 16)
    ordered = codes.contiguous().view(torch.int64).reshape(blocks, 4, 2, shape.slices, 4).permute(0, 3, 4, 1, 2)
    return ordered.reshape(blocks, shape.slices, 16, 2)


def _plane(words: Tensor, bits: int) -> Tensor:
    """Keep 8 / bits vectors in each line: uint8 [blocks, slices, bytes]; no code is shifted beyond its byte."""
    together = 8 // bits
    lines = words.reshape(*words.shape[:2], -1, together, words.shape[3])
    packed = lines[:, :, :, 0].clone(memory_format=torch.contiguous_format)
    for place in range(1, together):
        packed |= lines[:, :, :, place] << bits * place
    return packed.view(torch.uint8).flatten(2)
