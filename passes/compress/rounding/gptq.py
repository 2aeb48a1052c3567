"""Round one column after the other and let the columns that follow compensate for the error (GPTQ).

Frantar et al. 2022, arXiv 2210.17323. With X the inputs that a layer saw, the error of its outputs is the sum over rows
of (w - q) X^T X (w - q)^T. Once a column is rounded, the best change of the columns not yet rounded follows from the
Cholesky factor of the inverse of X^T X. Columns that matter most (the largest diagonal) come first, on scales or tables
chosen before (``static groups``), so that the order needs no trace in the artifact.

This file does not care where the grid comes from: integers with scales and indices into tables are rounded alike.
Measured on stories260K, 4 bits in groups of 32: perplexity +6.5 % against +13.8 % of round-to-nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from edgec.errors import InputError
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.rounding.weight_grid import QuantizedWeight, quantize_weight
from edgec.passes.compress.rounding.weight_tables import WeightTable, balanced_integers, tabulate

_BLOCK_COLUMNS = 64
DAMPING = 0.01
"""Share of the mean diagonal that is added to it: directions that the text never showed keep some weight."""


@dataclass(frozen=True)
class Curvature:
    """How errors of a layer's weights add up to errors of its outputs.

    Attributes:
        moments: mean square of each input, float32 [K].
        order: columns by falling mean square, int64 [K].
        factor: upper Cholesky factor of the inverse of the damped second moment in that order, float32 [K, K].
    """

    moments: Tensor
    order: Tensor
    factor: Tensor

    @classmethod
    def of(cls, inputs: Tensor, damping: float = DAMPING) -> Curvature:
        """Measure the curvature from a layer's inputs.

        Args:
            inputs: what the layer reads, float32 [rows, K].
            damping: share of the mean diagonal that is added to it; ten times as much where float32 needs it.

        Raises:
            InputError: E525, no damping makes the moment invertible: the inputs are not finite.
        """
        moment = inputs.T @ inputs / len(inputs)
        moments = moment.diagonal().clone()
        order = moments.argsort(descending=True, stable=True)
        for share in (damping, 10 * damping, 100 * damping):
            moment.diagonal().copy_(moments + share * float(moments.mean()) + 1e-12)
            factor = _inverse_factor(moment[order][:, order])
            if factor is not None:
                return cls(moments, order, factor)
        raise InputError(
            what="the inputs of a layer on the calibration text cannot be used",
            where="gptq",
            why="their second moment has no inverse: values are infinite or not numbers",
            fix='check the model with --recipe float, or use algorithm = "mse"',
            code="E525",
        )


def _inverse_factor(moment: Tensor) -> Tensor | None:
    """The upper Cholesky factor of the inverse, or None where rounding leaves no positive definite matrix."""
    lower, failed = torch.linalg.cholesky_ex(moment)
    if failed:
        return None
    upper, failed = torch.linalg.cholesky_ex(torch.cholesky_inverse(lower), upper=True)
    return None if failed or not bool(upper.isfinite().all()) else upper


class RoundingGrid(Protocol):
    """The values that the weights of a matrix may take, column by column."""

    def codes(self, values: Tensor, column: int) -> Tensor:
        """The nearest value's code for each row: [N] for float32 [N]."""
        ...

    def values(self, codes: Tensor, column: int) -> Tensor:
        """The values that codes stand for: float32 [N]."""
        ...


@dataclass(frozen=True)
class ScaleGrid:
    """Integers times a scale for each group of columns, float32 [N, K / group], plus its minimum where there is one."""

    scale: Tensor
    group: int
    bounds: tuple[int, int]
    minimum: Tensor | None = None

    def codes(self, values: Tensor, column: int) -> Tensor:
        """Integers within the bounds, as floats."""
        scale = self.scale[:, column // self.group]
        above = values if self.minimum is None else values - self.minimum[:, column // self.group]
        return (above / torch.where(scale == 0, 1.0, scale)).round_().clamp_(*self.bounds)

    def values(self, codes: Tensor, column: int) -> Tensor:
        """What the integers stand for."""
        values = codes * self.scale[:, column // self.group]
        return values if self.minimum is None else values + self.minimum[:, column // self.group]


@dataclass(frozen=True)
class TableGrid:
    """Entries of the table of each row: ``table`` float32 [N, entries], sorted."""

    table: Tensor

    def codes(self, values: Tensor, column: int) -> Tensor:
        """Indices of the nearest entries, as floats."""
        middles = (self.table[:, 1:] + self.table[:, :-1]) / 2
        return (values[:, None] > middles).sum(1).float()

    def values(self, codes: Tensor, column: int) -> Tensor:
        """The table entries that the indices name."""
        return self.table.gather(1, codes.long()[:, None])[:, 0]


def assign(weight: Tensor, grid: RoundingGrid, curvature: Curvature) -> Tensor:
    """Round a matrix to a grid, column by column.

    Args:
        weight: [N, K], any float dtype.
        grid: the values it may take.
        curvature: of the layer's inputs.

    Returns:
        The code of each weight, float32 [N, K].
    """
    left, factor = weight.float()[:, curvature.order], curvature.factor
    codes = torch.empty_like(left)
    for start in range(0, left.shape[1], _BLOCK_COLUMNS):
        block = slice(start, min(start + _BLOCK_COLUMNS, left.shape[1]))
        errors = _assign_block(left[:, block], codes[:, block], factor[block, block], grid, curvature.order[block])
        left[:, block.stop :] -= errors @ factor[block, block.stop :]
    result = torch.empty_like(codes)
    result[:, curvature.order] = codes
    return result


def _assign_block(left: Tensor, codes: Tensor, factor: Tensor, grid: RoundingGrid, columns: Tensor) -> Tensor:
    """Round neighbouring columns, writing ``codes``; returns their errors in units of the factor's diagonal."""
    errors = torch.empty_like(left)
    for i, column in enumerate(columns.tolist()):
        codes[:, i] = grid.codes(left[:, i], column)
        errors[:, i] = (left[:, i] - grid.values(codes[:, i], column)) / factor[i, i]
        left[:, i:] -= errors[:, i : i + 1] * factor[i, i:]
    return errors


def gptq_integers(weight: Tensor, scheme: WeightScheme, curvature: Curvature, name: str = "") -> QuantizedWeight:
    """Integers for a matrix, on the scales that ``mse`` finds when errors count as inputs are large.

    Args:
        weight: [N, K], any float dtype.
        scheme: of kind ``int``.
        curvature: of the layer's inputs.
        name: for the error message.

    Raises:
        InputError: as ``quantize_weight``.
    """
    start = quantize_weight(weight, scheme, "mse", name, curvature.moments)
    minimum = None if scheme.symmetric else start.beside
    grid = ScaleGrid(start.scale, scheme.block(weight.shape[1]), scheme.bounds, minimum)
    return QuantizedWeight(assign(weight, grid, curvature).to(torch.int8), start.scale, start.beside)


def gptq_balanced(weight: Tensor, scheme: WeightScheme, curvature: Curvature, name: str = "") -> QuantizedWeight:
    """Integers -3, -1, 1 and 3 on the scales of ``balanced_integers``; see ``gptq_integers``."""
    start = balanced_integers(weight, scheme, name)
    grid = TableGrid(start.scale * torch.tensor([-3.0, -1.0, 1.0, 3.0]))
    integers = assign(weight, grid, curvature).mul_(2).sub_(3).to(torch.int8)
    return QuantizedWeight(integers, start.scale, start.beside)


def gptq_table(weight: Tensor, scheme: WeightScheme, curvature: Curvature, name: str = "") -> WeightTable:
    """Indices for a matrix, into the tables that k-means finds; see ``gptq_integers``."""
    start = tabulate(weight, scheme, name, curvature.moments)
    order = start.table.argsort(1)
    rows = start.table.gather(1, order).repeat_interleave(start.group_rows, 0)
    codes = assign(weight, TableGrid(rows), curvature).long()
    indices = order.repeat_interleave(start.group_rows, 0).gather(1, codes)
    return WeightTable(indices.to(torch.uint8), start.table, start.group_rows)
