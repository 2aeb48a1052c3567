"""Matrices of few bits in the order in which edgec's kernels read them (engine/kernels/linear/matrix.h).

    codes [N, K], scales [N, G]      ==>      blocks of 16 rows (x86) or 8 (arm64), one after the other:
                                              per group:  codes, slice by slice of 32 values | bfloat16 scales
                                              then:       scales and minimums of other forms (scale_forms.py)

A kernel reads a block from its first byte to its last, so nothing is packed when the artifact is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from edgec.backends.cpu.linear.scale_forms import SLICE, Affine, ScaleForm, pack_affine

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
        bits: 2, 3, 4, 5, 6 or 8 per code.
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

    @property
    def centred(self) -> bool:
        """Whether the middle code stands for 0."""
        return self.offset == self.step << self.bits - 1


SYMMETRIC = {bits: CodeGrid(bits, 1, 1 << bits - 1) for bits in (2, 3, 4, 5, 6, 8)}
FROM_ZERO = {bits: CodeGrid(bits, 1, 0) for bits in (2, 3, 4, 5, 6)}
"""Grids of values with minimums, whose least code is the minimum itself."""
BALANCED2 = CodeGrid(2, 2, 3)
TERNARY = CodeGrid(2, 1, 1)


@dataclass(frozen=True)
class PackedMatrix:
    """The shape of a matrix in a layout.

    Attributes:
        rows, width: as in ``aten.linear``'s weight [rows, width].
        group: values that share a scale, a multiple of 32 that divides the width (16 where the form says so); 0: the
            whole row.
        grid: the meaning of its codes.
        block_rows: the rows of a block.
        form: of its scales and minimums; None: float32 where the whole row is a group, else bfloat16.
    """

    rows: int
    width: int
    group: int
    grid: CodeGrid
    block_rows: BlockRows
    form: ScaleForm | None = None

    @property
    def scale_form(self) -> ScaleForm:
        """The form of its scales and minimums."""
        return self.form or (ScaleForm.BFLOAT16 if self.group else ScaleForm.ROW)

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
        return self.block_rows * (codes + self.scale_form.row_bytes(self.slices, self.groups))

    @property
    def bytes(self) -> int:
        """The bytes of the whole matrix."""
        return -(-self.rows // self.block_rows) * self.block_bytes


def pack_matrix(shape: PackedMatrix, values: Tensor, scales: Tensor, minimums: Tensor | None = None) -> Tensor:
    """Lay out a matrix.

    Args:
        shape: its shape and layout.
        values: whole numbers of the grid, int8 [rows, width].
        scales: float32 [rows, groups]; those of bfloat16 are rounded to it, others lie on their form's grid.
        minimums: float32 [rows, groups], where the form has them.

    Returns:
        uint8 [shape.bytes].
    """
    packed = torch.empty(shape.bytes, dtype=torch.uint8)
    affine = Affine(scales.reshape(shape.rows, shape.groups).float(), minimums)
    done = 0
    # By rows, so that the intermediate tensors of a large lm_head stay small.
    for start in range(0, shape.rows, _CHUNK_ROWS):
        part = affine.rows(start, _CHUNK_ROWS)
        blocks = _pack_blocks(shape, values[start : start + _CHUNK_ROWS], part)
        packed[done : done + blocks.numel()] = blocks.reshape(-1)
        done += blocks.numel()
    assert done == shape.bytes
    return packed


def _pack_blocks(shape: PackedMatrix, values: Tensor, affine: Affine) -> Tensor:
    """Lay out some rows: uint8 [blocks, block_bytes]."""
    missing = -values.shape[0] % shape.block_rows
    codes = shape.grid.codes(values)
    if missing or shape.width % SLICE:
        codes = torch.nn.functional.pad(codes, (0, shape.slices * SLICE - shape.width, 0, missing))
    blocks, form = codes.shape[0] // shape.block_rows, shape.scale_form
    runs = shape.groups if form is ScaleForm.BFLOAT16 else 1
    coded = _coded(shape, codes).reshape(blocks, runs, -1)
    beside = pack_affine(form, affine.filled(missing), shape.block_rows)
    return torch.cat((coded, beside.reshape(blocks, runs, -1)), dim=2).reshape(blocks, -1)


# Codes whose bits no plane holds alone are cut into a plane of the lower bits and one of the others.
_LOWER_BITS = {3: 2, 5: 4, 6: 4}


def _coded(shape: PackedMatrix, codes: Tensor) -> Tensor:
    """The planes of every slice: uint8 [blocks, slices, bytes of a slice]."""
    if shape.block_rows is BlockRows.ARM64:
        codes = codes ^ (1 << shape.grid.bits - 1)
    words = _words(shape, codes)
    bits = shape.grid.bits
    lower = _LOWER_BITS.get(bits, bits)
    if lower == bits:
        return _plane(words, bits)
    low, high = words & _in_each_byte(words, lower), (words >> lower) & _in_each_byte(words, bits - lower)
    return torch.cat((_plane(low, lower), _plane(high, bits - lower)), dim=2)


def _in_each_byte(words: Tensor, bits: int) -> int:
    """A word with the lowest ``bits`` of every byte set."""
    return int.from_bytes(bytes([(1 << bits) - 1] * words.dtype.itemsize))


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
