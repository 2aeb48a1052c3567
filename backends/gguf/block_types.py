"""The types of GGUF that hold a matrix of integers exactly, the smallest first.

    codes, scales, minimums of a graph -> BlockFields (what a type's blocks hold) -> bytes (packed_blocks.py)

A value is ``code * scale + minimum``. Which type holds a matrix is read off its numbers, as for edgec's own layouts
(backends/cpu/linear/scale_forms.py): a scale of 64 values is the same scale twice in blocks of 32; a minimum that is
a whole multiple of its scale is a zero point, and integers less that are integers around 0.

    Q4_0, Q5_0, Q8_0    integers around 0, a float16 scale for 32
    Q4_1, Q5_1          integers from 0 on, a float16 scale and a float16 minimum for 32
    Q4_K, Q5_K          the same, scales and minimums products of 6 bits and a float16 for 256 values
    Q6_K                integers around 0, scales for 16 that are products of 8 bits and a float16 for 256
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from edgec.backends.cpu.linear.scale_forms import Affine, in_steps, zero_points

BLOCK, SUPER, SUPER_GROUPS, SMALL_GROUPS = 32, 256, 8, 16
_SIX, _EIGHT = range(63, 0, -1), (*range(-128, 0), *range(127, 0, -1))
_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class GridMatrix:
    """A matrix as a graph stores it.

    Attributes:
        codes: int8 [rows, width].
        affine: scales and minimums of groups along a row.
    """

    codes: Tensor
    affine: Affine

    @property
    def width(self) -> int:
        """Values in a row."""
        return self.codes.shape[1]

    @property
    def group(self) -> int:
        """Values that share a scale."""
        return self.width // self.affine.scales.shape[1]

    def values(self) -> Tensor:
        """What it means, float32 [rows, width], in the order of operations of the graph's own form."""
        groups = self.codes.float().unflatten(1, (-1, self.group)) * self.affine.scales.unsqueeze(2)
        minimums = self.affine.minimums
        result: Tensor = (groups if minimums is None else groups + minimums.unsqueeze(2)).flatten(1)
        return result

    def parts(self) -> Iterator[GridMatrix]:
        """Some rows at a time, a few million values of them."""
        step = max(1, _AT_ONCE // self.width)
        for start in range(0, len(self.codes), step):
            yield GridMatrix(self.codes[start : start + step], self.affine.rows(start, step))

    def with_rows(self, order: Tensor) -> GridMatrix:
        """The same with its rows in another order: int64 [rows], the row that comes to each place."""
        minimums = self.affine.minimums
        affine = Affine(self.affine.scales[order], None if minimums is None else minimums[order])
        return GridMatrix(self.codes[order], affine)


@dataclass(frozen=True)
class BlockFields:
    """What the blocks of a type hold of some rows.

    Attributes:
        codes: int16 [rows, width].
        d: float16 [rows, blocks], the scale of a block, or of its scales.
        s: int16 [rows, groups], each group's scale in units of ``d``; None where a block has one scale.
        dmin: float16 [rows, blocks], the minimum of a block, or the scale of its minimums; None where there are none.
        m: int16 [rows, groups], as ``s``.
    """

    codes: Tensor
    d: Tensor
    s: Tensor | None = None
    dmin: Tensor | None = None
    m: Tensor | None = None


@dataclass(frozen=True)
class BlockType:
    """A type of GGUF.

    Attributes:
        name: GGUF's.
        bits: of a weight, scales included.
        codes: the least and the largest integer.
        held: the fields of its blocks where it holds a matrix exactly; else None.
    """

    name: str
    bits: float
    codes: tuple[int, int]
    held: Callable[[GridMatrix, tuple[int, int]], BlockFields | None]

    def fields(self, matrix: GridMatrix) -> BlockFields | None:
        """What its blocks hold of some rows; None where it does not hold these exactly."""
        return self.held(matrix, self.codes)

    def holds(self, matrix: GridMatrix) -> bool:
        """Whether it holds a whole matrix exactly."""
        return all(self.fields(part) is not None for part in matrix.parts())


def _around_zero(matrix: GridMatrix, bounds: tuple[int, int]) -> BlockFields | None:
    whole = _whole_numbers(matrix)
    if whole is None or matrix.group % BLOCK or not _within(whole, bounds):
        return None
    scales = _half(matrix.affine.scales, whole)
    return None if scales is None else BlockFields(whole, _for_blocks(scales, matrix))


def _whole_numbers(matrix: GridMatrix) -> Tensor | None:
    """Codes less their zero points, int16; None where minimums are not whole multiples of scales."""
    codes, (scales, minimums) = matrix.codes.to(torch.int16), (matrix.affine.scales, matrix.affine.minimums)
    if minimums is None:
        return codes
    zeros = zero_points(scales, minimums)
    # Where a scale is 0 so are the products, and a minimum is a value that no zero point makes.
    if not torch.equal(zeros * -scales, minimums):
        return None
    return codes - zeros.to(torch.int16).repeat_interleave(matrix.group, 1)


def _half(scales: Tensor, whole: Tensor) -> Tensor | None:
    """Scales as float16; None where that changes one whose group has other integers than 0."""
    half = scales.half()
    silent = (whole.unflatten(1, (scales.shape[1], -1)) == 0).all(2)
    return half if bool(((half.float() == scales) | silent).all()) else None


def _from_zero(matrix: GridMatrix, bounds: tuple[int, int]) -> BlockFields | None:
    scales, minimums = matrix.affine.scales, matrix.affine.minimums
    if minimums is None or matrix.group % BLOCK or not _within(matrix.codes, bounds):
        return None
    halves = scales.half(), minimums.half()
    if not (torch.equal(halves[0].float(), scales) and torch.equal(halves[1].float(), minimums)):
        return None
    d, dmin = (_for_blocks(each, matrix) for each in halves)
    return BlockFields(matrix.codes.to(torch.int16), d, dmin=dmin)


def _six_bits(matrix: GridMatrix, bounds: tuple[int, int]) -> BlockFields | None:
    minimums = matrix.affine.minimums
    if minimums is None or matrix.group != BLOCK or matrix.width % SUPER or not _within(matrix.codes, bounds):
        return None
    scales, less = (_steps(each, SUPER_GROUPS, _SIX) for each in (matrix.affine.scales, -minimums))
    if scales is None or less is None:
        return None
    return BlockFields(matrix.codes.to(torch.int16), *scales, *less)


def _eight_bits(matrix: GridMatrix, bounds: tuple[int, int]) -> BlockFields | None:
    fits = matrix.affine.minimums is None and matrix.group == BLOCK // 2 and not matrix.width % SUPER
    if not fits or not _within(matrix.codes, bounds):
        return None
    scales = _steps(matrix.affine.scales, SMALL_GROUPS, _EIGHT)
    return None if scales is None else BlockFields(matrix.codes.to(torch.int16), *scales)


def _steps(numbers: Tensor, together: int, factors: range | tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
    """A float16 step for so many groups and small whole numbers; None where their products are not the numbers."""
    steps, counts = in_steps(numbers, together, factors)
    same = torch.equal(steps.repeat_interleave(together, 1) * counts, numbers)
    # A negative zero would be another bit than the file that is kept has.
    return ((steps + 0.0).half(), counts.to(torch.int16)) if same else None


def _within(codes: Tensor, bounds: tuple[int, int]) -> bool:
    low, high = (int(end) for end in codes.aminmax())
    return bounds[0] <= low and high <= bounds[1]


def _for_blocks(numbers: Tensor, matrix: GridMatrix) -> Tensor:
    return numbers.repeat_interleave(matrix.group // BLOCK, 1)


BLOCK_TYPES = (
    BlockType("Q4_0", 4.5, (-8, 7), _around_zero),
    BlockType("Q4_K", 4.5, (0, 15), _six_bits),
    BlockType("Q4_1", 5.0, (0, 15), _from_zero),
    BlockType("Q5_0", 5.5, (-16, 15), _around_zero),
    BlockType("Q5_K", 5.5, (0, 31), _six_bits),
    BlockType("Q5_1", 6.0, (0, 31), _from_zero),
    BlockType("Q6_K", 6.5625, (-32, 31), _eight_bits),
    BlockType("Q8_0", 8.5, (-128, 127), _around_zero),
)
"""From few bits to many."""


def type_of(matrix: GridMatrix) -> BlockType | None:
    """The smallest type that holds a matrix exactly; None where none does."""
    return next((kind for kind in BLOCK_TYPES if kind.holds(matrix)), None)
