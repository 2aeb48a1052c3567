"""Matrices of few bits read back from an artifact's bytes, as engine/kernels/linear/matrix.h lays them out.

Written apart from layout.py and scale_forms.py, which write those bytes: what both get wrong in the same way is left to
the comparison of logits.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from edgec.backends.cpu.linear.layout import BlockRows, CodeGrid, PackedMatrix
from edgec.backends.cpu.linear.scale_forms import SLICE, SUPER_SLICES, Affine, ScaleForm
from edgec.bundle.delegates import PackedText

_ROWS = 4096
# A vector of a block's plane: values of a row that lie side by side, and rows of the vector.
_SIDE_BY_SIDE = {BlockRows.X86: 4, BlockRows.ARM64: 8}
_ROWS_OF_VECTOR = {BlockRows.X86: 16, BlockRows.ARM64: 2}


def matrix_of(text: PackedText) -> PackedMatrix:
    """The shape of a matrix as a delegate's text tells it."""
    grid = CodeGrid(text.bits, text.step, text.offset)
    return PackedMatrix(text.rows, text.width, text.group, grid, BlockRows(text.block_rows), ScaleForm(text.scales))


def weights_of(text: PackedText, data: bytes) -> Tensor:
    """What a matrix's integers, scales and minimums stand for, float32 [rows, width]."""
    shape, parts = matrix_of(text), []
    for whole, affine in read_back(shape, torch.frombuffer(bytearray(data), dtype=torch.uint8)):
        groups = whole.reshape(len(whole), shape.groups, -1) * affine.scales[:, :, None]
        parts.append((groups if affine.minimums is None else groups + affine.minimums[:, :, None]).flatten(1))
    return torch.cat(parts)


def read_back(shape: PackedMatrix, data: Tensor) -> Iterator[tuple[Tensor, Affine]]:
    """Read a matrix, at most 4,096 rows at a time.

    Args:
        shape: of the matrix.
        data: uint8 [shape.bytes].

    Yields:
        Whole numbers, int16 [rows, width], and the scales and minimums of their groups, float32 [rows, groups].
    """
    blocks = data.reshape(-1, shape.block_bytes)
    together = _ROWS // shape.block_rows
    for start in range(0, len(blocks), together):
        values, affine = _read_blocks(shape, blocks[start : start + together])
        rows = min(len(values), shape.rows - start * shape.block_rows)
        yield values[:rows, : shape.width], affine.rows(0, rows)


def _read_blocks(shape: PackedMatrix, blocks: Tensor) -> tuple[Tensor, Affine]:
    runs = shape.groups if shape.scale_form is ScaleForm.BFLOAT16 else 1
    coded = shape.slices * SLICE * shape.grid.bits // 8 * shape.block_rows // runs
    parts = blocks.reshape(len(blocks), runs, -1)
    codes = _codes(shape, parts[:, :, :coded].reshape(len(blocks), shape.slices, -1))
    return shape.grid.values(codes), _affine(shape, parts[:, :, coded:].reshape(len(blocks), -1))


def _codes(shape: PackedMatrix, slices: Tensor) -> Tensor:
    """The codes of slices, uint8 [blocks, slices, bytes] to [rows, 32 * slices]."""
    bits, block_rows = shape.grid.bits, shape.block_rows
    low = {3: 2, 5: 4, 6: 4}.get(bits, bits)
    border = SLICE * low // 8 * block_rows
    codes = _plane(shape, slices[:, :, :border], low)
    if low < bits:
        codes = codes | _plane(shape, slices[:, :, border:], bits - low) << low
    if block_rows is BlockRows.ARM64:
        codes = codes ^ (1 << bits - 1)
    rows, side = _ROWS_OF_VECTOR[block_rows], _SIDE_BY_SIDE[block_rows]
    # Vector by vector: first all rows of some values, then the next values.
    by_place = codes.reshape(*slices.shape[:2], SLICE // side, block_rows // rows, rows, side)
    return by_place.permute(0, 3, 4, 1, 2, 5).reshape(len(slices) * block_rows, -1)


def _plane(shape: PackedMatrix, plane: Tensor, bits: int) -> Tensor:
    """A plane's codes in order, uint8 [blocks, slices, 32 * block_rows]; a byte holds those of 8 / bits vectors."""
    vector = _ROWS_OF_VECTOR[shape.block_rows] * _SIDE_BY_SIDE[shape.block_rows]
    lines = plane.reshape(*plane.shape[:2], -1, 1, vector)
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8).reshape(-1, 1)
    return ((lines >> shifts) & ((1 << bits) - 1)).flatten(2)


_SCALES = {ScaleForm.BFLOAT16: torch.bfloat16, ScaleForm.ROW: torch.float32, ScaleForm.FLOAT16: torch.float16}


def _affine(shape: PackedMatrix, beside: Tensor) -> Affine:
    """Scales and minimums from what lies beside a block's codes, uint8 [blocks, bytes]."""
    rows, groups, form = shape.block_rows, shape.groups, shape.scale_form
    if form in _SCALES:
        return Affine(_table(beside, _SCALES[form], rows))
    if form is ScaleForm.FLOAT16_MINIMUM:
        both = _table(beside, torch.float16, rows)
        return Affine(both[:, ::2], both[:, 1::2])
    if form is ScaleForm.FLOAT16_ZERO:
        border = 2 * groups * rows
        scales, zeros = _table(beside[:, :border], torch.float16, rows), _table(beside[:, border:], torch.uint8, rows)
        return Affine(scales, zeros.float() * -scales)
    if form is ScaleForm.EIGHT_BITS:
        counts, steps = beside[:, : groups * rows], beside[:, groups * rows :]
        return Affine(_table(counts, torch.int8, rows) * _each(_table(steps, torch.float16, rows), 16, groups))
    return _six_bits(beside, groups, rows)


def _six_bits(beside: Tensor, groups: int, rows: int) -> Affine:
    """Lower 4 bits of scale and minimum; their upper 2 bits, those of two groups in a byte; two steps for 8 groups."""
    first, second = groups * rows, (groups + -(-groups // 2)) * rows
    lower, paired = _table(beside[:, :first], torch.uint8, rows), _table(beside[:, first:second], torch.uint8, rows)
    lower, paired = lower.to(torch.int16), paired.to(torch.int16)
    upper = torch.stack((paired & 15, paired >> 4), 2).flatten(1)[:, :groups]
    steps = _table(beside[:, second:], torch.float16, rows)
    scale = (lower & 15 | (upper & 3) << 4) * _each(steps[:, ::2], SUPER_SLICES, groups)
    return Affine(scale, (lower >> 4 | (upper >> 2) << 4) * _each(steps[:, 1::2], SUPER_SLICES, groups))


def _each(steps: Tensor, together: int, groups: int) -> Tensor:
    return steps.repeat_interleave(together, 1)[:, :groups]


def _table(part: Tensor, dtype: torch.dtype, rows: int) -> Tensor:
    """Entries that lie row by row of a block: [rows of all blocks, entries], floats as float32."""
    entries = part.contiguous().view(dtype).reshape(len(part), -1, rows).transpose(1, 2).flatten(0, 1)
    return entries.float() if dtype.is_floating_point else entries
