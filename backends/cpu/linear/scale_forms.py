"""How the scales and minimums of a matrix are stored beside its codes (engine/kernels/linear/matrix.h).

A value is ``whole number * scale + minimum``, with a scale and perhaps a minimum for each group. Which form holds
them is read off the numbers: the graph says float32, and what a checkpoint or an algorithm put on a grid of fewer bits
is found to lie there, exactly.

    bfloat16         scales that bfloat16 holds                                 edgec's recipes without minimums
    row              one float32 scale a row
    float16          scales that float16 holds                                  GGUF's Q4_0, Q5_0, Q8_0
    float16_minimum  the same, with minimums                                    Q4_1, Q5_1
    float16_zero     float16 scales; minimums are -z scales, z in 0..255         GPTQ and AWQ with zero points
    six_bits         products of 0..63 and a float16 for 8 groups of 32         Q4_K, Q5_K, edgec's 4bit
    eight_bits       products of -128..127 and a float16 for 16 groups of 16    Q6_K
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

SLICE, SUPER_SLICES = 32, 8
_LARGEST_GROUP = 1024
_SIX, _EIGHT = range(63, 0, -1), (*range(-128, 0), *range(127, 0, -1))
# Bits of codes that kernels multiply with bfloat16 scales or one of a row (matrix.h).
_IN_PLACE = (2, 3, 4, 8)


class ScaleForm(StrEnum):
    """A form of scales and minimums, by the name that a delegate's text gives it."""

    BFLOAT16 = "bfloat16"
    ROW = "row"
    FLOAT16 = "float16"
    FLOAT16_MINIMUM = "float16_minimum"
    SIX_BITS = "six_bits"
    EIGHT_BITS = "eight_bits"
    FLOAT16_ZERO = "float16_zero"

    @property
    def has_minimums(self) -> bool:
        """Whether values have a minimum."""
        return self in (ScaleForm.FLOAT16_MINIMUM, ScaleForm.FLOAT16_ZERO, ScaleForm.SIX_BITS)

    def row_bytes(self, slices: int, groups: int) -> int:
        """The bytes of a row's scales and minimums."""
        supers = -(-slices // SUPER_SLICES)
        return {
            ScaleForm.BFLOAT16: 2 * groups,
            ScaleForm.ROW: 4,
            ScaleForm.FLOAT16: 2 * groups,
            ScaleForm.FLOAT16_MINIMUM: 4 * groups,
            ScaleForm.FLOAT16_ZERO: 3 * groups,
            ScaleForm.SIX_BITS: slices + -(-slices // 2) + 4 * supers,
            ScaleForm.EIGHT_BITS: 2 * slices + 2 * supers,
        }[self]


@dataclass(frozen=True)
class Affine:
    """The scales of groups, float32 [rows, groups], and their minimums of the same shape or None."""

    scales: Tensor
    minimums: Tensor | None = None

    def rows(self, start: int, count: int) -> Affine:
        """Those of some rows."""
        minimums = None if self.minimums is None else self.minimums[start : start + count]
        return Affine(self.scales[start : start + count], minimums)

    def filled(self, rows: int) -> Affine:
        """With so many rows of zeros behind."""
        pad = torch.nn.functional.pad
        minimums = None if self.minimums is None else pad(self.minimums, (0, 0, 0, rows))
        return Affine(pad(self.scales, (0, 0, 0, rows)), minimums)


def form_of(affine: Affine, width: int, bits: int, centred: bool) -> ScaleForm | None:
    """The smallest form that holds scales and minimums exactly and that kernels read; None where there is none.

    Args:
        affine: of the matrix.
        width: values in a row.
        bits: of a code.
        centred: whether a code of 2^(bits - 1) stands for 0.
    """
    scales, group = affine.scales, width // affine.scales.shape[1]
    if affine.minimums is None and scales.shape[1] == 1:
        return ScaleForm.ROW if bits in _IN_PLACE else None
    if group == SLICE // 2:
        return ScaleForm.EIGHT_BITS if bits == 6 and centred and _has_steps(scales, 16, _EIGHT) else None
    if group % SLICE or group > _LARGEST_GROUP or not scales.isfinite().all():
        return None
    return _around_zero(scales, bits) if affine.minimums is None else _with_minimums(scales, affine.minimums, group)


def _around_zero(scales: Tensor, bits: int) -> ScaleForm | None:
    if bits in _IN_PLACE and _holds(scales, torch.bfloat16):
        return ScaleForm.BFLOAT16
    return ScaleForm.FLOAT16 if _holds(scales, torch.float16) else None


def _with_minimums(scales: Tensor, minimums: Tensor, group: int) -> ScaleForm | None:
    if group == SLICE and _has_steps(scales, SUPER_SLICES, _SIX) and _has_steps(-minimums, SUPER_SLICES, _SIX):
        return ScaleForm.SIX_BITS
    if not _holds(scales, torch.float16):
        return None
    if torch.equal(zero_points(scales, minimums) * -scales, minimums):
        return ScaleForm.FLOAT16_ZERO
    return ScaleForm.FLOAT16_MINIMUM if _holds(minimums, torch.float16) else None


def zero_points(scales: Tensor, minimums: Tensor) -> Tensor:
    """The whole numbers 0 to 255 that are nearest to ``-minimums / scales``, in float32."""
    return (minimums / torch.where(scales == 0, 1.0, -scales)).round().clamp(0, 255)


def _holds(numbers: Tensor, dtype: torch.dtype) -> bool:
    return torch.equal(numbers.to(dtype).float(), numbers)


def _has_steps(numbers: Tensor, together: int, factors: range | tuple[int, ...]) -> bool:
    steps, counts = in_steps(numbers, together, factors)
    return torch.equal(steps.repeat_interleave(together, 1)[:, : numbers.shape[1]] * counts, numbers)


def in_steps(numbers: Tensor, together: int, factors: range | tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Write numbers as a float16 step times small whole numbers, exactly where that is possible.

    Args:
        numbers: float32 [rows, groups].
        together: groups that share a step, the last ones fewer.
        factors: what the number of the largest magnitude may be, the likely ones first; the others lie between 0, or
            their negative least, and the largest of them.

    Returns:
        The steps, float32 [rows, steps of a row], and the whole numbers, float32 [rows, groups].
    """
    rows, groups = numbers.shape
    padded = torch.nn.functional.pad(numbers, (0, -groups % together)).reshape(-1, together)
    top = padded.gather(1, padded.abs().argmax(1, keepdim=True))
    steps, counts = torch.zeros_like(top), torch.zeros_like(padded)
    left = top[:, 0].nonzero()[:, 0]
    for factor in factors:
        if not len(left):
            break
        step = (top[left] / factor).half().float()
        count = (padded[left] / torch.where(step == 0, 1.0, step)).round()
        fits = ((step * count == padded[left]) & (count <= max(factors)) & (count >= min(0, *factors))).all(1)
        steps[left[fits]], counts[left[fits]] = step[fits], count[fits]
        left = left[~fits]
    return steps.reshape(rows, -1), counts.reshape(rows, -1)[:, :groups]


def pack_affine(form: ScaleForm, affine: Affine, block_rows: int) -> Tensor:
    """What lies after the codes of each block: uint8 [blocks, bytes]; rows are whole blocks.

    Scales of bfloat16 come group by group: uint8 [blocks, groups, 2 * block_rows].
    """
    scales, minimums = affine.scales, affine.minimums
    if form is ScaleForm.BFLOAT16:
        return _by_block(scales.bfloat16(), block_rows).view(torch.uint8)
    if minimums is None:
        return _pack_scales(form, scales, block_rows)
    if form is ScaleForm.FLOAT16_ZERO:
        zeros = zero_points(scales, minimums).to(torch.uint8)
        return _joined(*(_by_block(part, block_rows) for part in (scales.half(), zeros)))
    if form is ScaleForm.FLOAT16_MINIMUM:
        return _by_block(_alternating(scales, minimums).half(), block_rows).view(torch.uint8).flatten(1)
    return _pack_six_bits(scales, minimums, block_rows)


def _pack_scales(form: ScaleForm, scales: Tensor, block_rows: int) -> Tensor:
    if form is ScaleForm.EIGHT_BITS:
        steps, counts = in_steps(scales, 16, _EIGHT)
        return _joined(_by_block(counts.to(torch.int8), block_rows), _by_block(steps.half(), block_rows))
    return _joined(_by_block(scales if form is ScaleForm.ROW else scales.half(), block_rows))


def _pack_six_bits(scales: Tensor, minimums: Tensor, block_rows: int) -> Tensor:
    (d, s), (e, m) = in_steps(scales, SUPER_SLICES, _SIX), in_steps(-minimums, SUPER_SLICES, _SIX)
    s, m = s.to(torch.uint8), m.to(torch.uint8)
    lower, upper = s & 15 | (m & 15) << 4, s >> 4 | m >> 4 << 2
    upper = torch.nn.functional.pad(upper, (0, upper.shape[1] % 2))
    paired = upper[:, ::2] | upper[:, 1::2] << 4
    steps = _alternating(d, 0.0 - e).half()  # no negative zeros
    return _joined(*(_by_block(part, block_rows) for part in (lower, paired, steps)))


def _by_block(table: Tensor, block_rows: int) -> Tensor:
    """[rows, entries] ==> [blocks, entries, block_rows]."""
    return table.reshape(-1, block_rows, table.shape[1]).transpose(1, 2).contiguous()


def _joined(*parts: Tensor) -> Tensor:
    return torch.cat([part.view(torch.uint8).flatten(1) for part in parts], dim=1)


def _alternating(first: Tensor, second: Tensor) -> Tensor:
    """Two tables [rows, n] as one, [rows, 2n], entry by entry."""
    return torch.stack((first, second), 2).flatten(1)
