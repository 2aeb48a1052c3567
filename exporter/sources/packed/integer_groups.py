"""Matrices of integers in groups that share a scale, and perhaps a zero point: value = scale * (code - zero point).

The integers are read from their file when they are asked for, row by row; scales and zero points, a hundredth of
them, before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from edgec.exporter.sources.packed.faults import bad_scales
from edgec.ir.row_tensor import ChosenRows, RowTensor
from edgec.ir.stored_forms import HELD_GROUPS, PackedForm
from edgec.ir.weight_scheme import WeightScheme

ALL_ROWS = slice(None)
_AT_ONCE = 1 << 22
_LARGEST_ZERO = 255
# Bits of codes that kernels multiply with scales of bfloat16 (backends/cpu/linear/scale_forms.py).
_BFLOAT16_BITS = (2, 3, 4, 8)
_UNEVEN = "act-order, and groups whose columns are not a multiple of 32"


@dataclass(frozen=True)
class IntegerGroups:
    """One matrix.

    Attributes:
        name: for error messages.
        codes: reads the integers of some rows, given a slice or int64 ids [n]: int8 [n, K], or uint8 where there are
            zero points and 8 bits.
        scale: [N, G], in the dtype of the file, finite and not 0.
        zero: int16 [N, G]; None where all are 0.
        groups: int64 [K], the group of each column.
        bits: of an integer.
    """

    name: str
    codes: Callable[[ChosenRows], Tensor]
    scale: Tensor
    zero: Tensor | None
    groups: Tensor
    bits: int

    def __post_init__(self) -> None:
        check_scales(self.name, self.scale)

    @property
    def width(self) -> int:
        """Values in a row."""
        return len(self.groups)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and width."""
        return len(self.scale), self.width

    def values(self, chosen: ChosenRows = ALL_ROWS) -> Tensor:
        """What some rows mean, float32 [n, K]: exact where a scale has no more than 16 bits."""
        scale, zero = self.scale[chosen], None if self.zero is None else self.zero[chosen]
        values = torch.empty(len(scale), self.width)
        for rows, codes in self._pieces(chosen):
            values[rows] = codes
            if zero is not None:
                values[rows].sub_(zero[rows][:, self.groups].float())
            values[rows].mul_(scale[rows][:, self.groups].float())
        return values

    def value_rows(self) -> RowTensor:
        """What it means, as rows that are made when they are read."""
        return RowTensor(self.shape, torch.float32, self.values)

    def code_rows(self) -> RowTensor:
        """Its integers int8 [N, K] in the order of ``columns``, as rows that are unpacked when they are read."""
        return RowTensor(self.shape, torch.int8, self._unpacked)

    def _unpacked(self, chosen: ChosenRows) -> Tensor:
        codes = torch.empty(len(self.scale[chosen]), self.width, dtype=torch.int8)
        for rows, part in self._pieces(chosen):
            codes[rows] = part if self.columns is None else part[:, self.columns]
        return codes

    def _pieces(self, chosen: ChosenRows) -> Iterator[tuple[slice, Tensor]]:
        """The integers of some rows, a few million at a time, and their places among these rows."""
        ids, step = torch.arange(len(self.scale))[chosen], max(1, _AT_ONCE // self.width)
        whole = isinstance(chosen, slice) and len(ids) > 0
        for start in range(0, len(ids), step):
            part = ids[start : start + step]
            read = slice(int(part[0]), int(part[-1]) + 1) if whole else part
            yield slice(start, start + step), self.codes(read)

    def kept(self, form: PackedForm) -> tuple[WeightScheme | None, str]:
        """The scheme of kernels that holds these numbers bit for bit; else None and the reason."""
        if self.zero is None and self.scale.shape[1] == 1:
            return form.scheme(0), ""
        unit = self.unit
        if not unit:
            narrow = self.width % HELD_GROUPS[-1] != 0
            return None, f"a width of {self.width} is not a multiple of 32" if narrow else _UNEVEN
        if self.zero is not None and self.bits == 8:
            return None, "kernels read no zero points beside 8 bits"
        if not self._held_scales():
            return None, "its scales are on a finer grid than float16"
        return form.scheme(unit), ""

    def grid(self, scheme: WeightScheme) -> tuple[Tensor, Tensor, Tensor]:
        """The numbers as a graph stores them by ``kept``'s scheme.

        Returns:
            Integers int8 [N, K], which are read from the file row by row, scales float32 [N, K / g], and minimums
            float32 or zero points int8 of that shape.
        """
        of_groups = self._in_order[:: scheme.block(self.width)]
        scale = self.scale[:, of_groups].float().contiguous()
        if self.zero is None:
            return self.code_rows(), scale, torch.zeros_like(scale, dtype=torch.int8)
        # Twenty bits at most: exact.
        return self.code_rows(), scale, -scale * self.zero[:, of_groups].float()

    @cached_property
    def columns(self) -> Tensor | None:
        """The order of columns, int64 [K], in which those of a group lie side by side; None for the file's own."""
        if self.scale.shape[1] == 1 or _unit(self.groups):
            return None
        order = torch.argsort(self.groups, stable=True)
        return order if _unit(self.groups[order]) else None

    @cached_property
    def _in_order(self) -> Tensor:
        return self.groups if self.columns is None else self.groups[self.columns]

    @cached_property
    def unit(self) -> int:
        """The largest group that kernels read whose columns all belong to one group here; 0 where there is none."""
        return _unit(self._in_order)

    @property
    def half(self) -> bool:
        """Whether float16 holds every scale."""
        return _holds(self.scale, torch.float16)

    def _held_scales(self) -> bool:
        if self.zero is None and self.bits in _BFLOAT16_BITS and _holds(self.scale, torch.bfloat16):
            return True
        zeros = self.zero is None or (self.zero.min() >= 0 and self.zero.max() <= _LARGEST_ZERO)
        return bool(zeros) and self.half


def check_scales(name: str, scale: Tensor) -> None:
    """Refuse scales that are zero, infinite or not numbers.

    Raises:
        InputError: E818.
    """
    numbers = scale.float()
    wrong = [("not numbers", numbers.isnan()), ("infinite", numbers.isinf()), ("zero", numbers == 0)]
    for what, where in wrong:
        if where.any():
            raise bad_scales(name, f"{int(where.sum()):,} of {scale.numel():,} scales are {what}")


def whole_groups(width: int, group: int) -> Tensor:
    """The group of each column where groups lie one after the other; 0 and less: one group a row."""
    return torch.arange(width) // (group if group > 0 else width)


def _unit(groups: Tensor) -> int:
    """The largest of the groups that kernels read of which each lies inside one of ``groups``; 0 where none does."""
    fitting = (unit for unit in HELD_GROUPS if len(groups) % unit == 0)
    return next((unit for unit in fitting if _is_constant(groups.view(-1, unit))), 0)


def _is_constant(rows: Tensor) -> bool:
    return bool((rows == rows[:, :1]).all())


def _holds(numbers: Tensor, dtype: torch.dtype) -> bool:
    return numbers.dtype == dtype or torch.equal(numbers.to(dtype).float(), numbers.float())
