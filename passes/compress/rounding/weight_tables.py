"""Find indices and tables for one weight matrix: pure functions, groups of rows in blocks.

- ``lut``: the 2^bits values that stand for a group of output channels with the least squared error (``kmeans``).
- ``balanced``: {-1.5, -0.5, 0.5, 1.5} x the scale with the least squared error; found exactly up to the width of a bin,
  since a scale follows from which magnitudes are rounded to 1.5: all such choices are compared.
- pruned: in each row (or each block of one) the smallest magnitudes become the exact zero at index 0, the others are
  clustered without them.

Where the second moments of the layer's inputs are given, errors count more for larger inputs: the error of an output is
the sum of (weight error x input)^2. Magnitudes are then ranked by |weight| x root mean square input (Wanda, arXiv
2306.11695). Tables hold float16 values, as Core ML stores them, so that a lowering loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from edgec.errors import InputError
from edgec.ir.lut_form import dequantize_lut
from edgec.ir.weight_scheme import BALANCED, WeightScheme
from edgec.passes.compress.rounding.kmeans import Histogram, bins_for, cluster
from edgec.passes.compress.rounding.weight_grid import QuantizedWeight

_BLOCK_VALUES = 1 << 20
_MAGNITUDE_BINS = 1024
_HALF, _WHOLE = BALANCED[2], BALANCED[3]


@dataclass(frozen=True)
class WeightTable:
    """A matrix as ``indices`` uint8 [N, K] into ``table`` float32 [N / group_rows, 2^bits]."""

    indices: Tensor
    table: Tensor
    group_rows: int

    def dequantize(self) -> Tensor:
        """The values the indices stand for, float32 [N, K]."""
        return dequantize_lut(self.indices, self.table, None, self.group_rows)


def tabulate(weight: Tensor, scheme: WeightScheme, name: str = "", moments: Tensor | None = None) -> WeightTable:
    """Replace a matrix by indices and tables.

    Args:
        weight: [N, K], any float dtype; read in blocks of about a million values.
        scheme: of kind ``lut`` or ``balanced``; its group_rows divides N.
        name: for the error message.
        moments: mean square of each input, float32 [K]; None where inputs count alike.

    Raises:
        InputError: E173, the weight holds NaN or infinity; E174, its values do not fit into float16.
    """
    rows, width = weight.shape
    shared = scheme.table_rows(rows)
    indices = torch.empty((rows, width), dtype=torch.uint8)
    tables = []
    for start, stop in _batches(rows, width, shared, bins_for(1 << scheme.bits)):
        # Second moments as weights of errors; inputs that were never seen count a little, so that no cluster is lost.
        checked = None if moments is None else moments.float().clamp_min(float(moments.mean()) * 1e-3 + 1e-20)
        batch = _Batch(weight[start:stop], shared, scheme, checked, name)
        tabulated = batch.balanced() if scheme.kind == "balanced" else batch.clustered()
        indices[start:stop] = batch.indices(tabulated)
        tables.append(tabulated.table)
    return WeightTable(indices, torch.cat(tables).half().float(), shared)


def balanced_integers(weight: Tensor, scheme: WeightScheme, name: str = "") -> QuantizedWeight:
    """The balanced set as integers -3, -1, 1 and 3 times half the scale, one scale per output channel: the same values.

    Args:
        weight: [N, K], any float dtype.
        scheme: of kind ``balanced``.
        name: for the error message.

    Raises:
        InputError: as ``tabulate``.
    """
    tables = tabulate(weight, scheme, name)
    scale = tables.table[:, 2:3].repeat_interleave(tables.group_rows, 0)
    integers = tables.indices.to(torch.int8).mul_(2).sub_(3)
    return QuantizedWeight(integers, scale, torch.zeros_like(scale, dtype=torch.int8))


def _batches(rows: int, width: int, shared: int, bins: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows of whole groups, small enough in values and bins."""
    step = max(1, min(_BLOCK_VALUES // (shared * width), _BLOCK_VALUES // bins)) * shared
    return ((start, min(rows, start + step)) for start in range(0, rows, step))


@dataclass(frozen=True)
class _Binned:
    """Clustered values: ``table`` float [G, entries] and the index of every bin of the histogram, uint8 [G * bins]."""

    table: Tensor
    of_bins: Tensor
    histogram: Histogram

    def indices(self, values: Tensor) -> Tensor:
        """The index of each value, uint8 [G, M] for float32 [G, M]."""
        return self.of_bins.index_select(0, self.histogram.bins_of(values).view(-1)).view(values.shape)


@dataclass(frozen=True)
class _Balanced:
    """The balanced set with a scale for each group, float32 [G]: values round to the nearest ``BALANCED`` x scale."""

    scale: Tensor

    @property
    def table(self) -> Tensor:
        """The four values of each group, float32 [G, 4]."""
        return self.scale[:, None] * torch.tensor(BALANCED)

    def indices(self, values: Tensor) -> Tensor:
        """The index of each value, uint8 [G, M] for float32 [G, M]."""
        scale = self.scale[:, None]
        return (values > -scale).to(torch.uint8).add_(values > 0).add_(values > scale)


@dataclass(frozen=True)
class _Batch:
    """Some whole groups of a matrix, [n, K], whose tables are found together; each has ``shared`` rows."""

    weight: Tensor
    shared: int
    scheme: WeightScheme
    moments: Tensor | None
    name: str

    def clustered(self) -> _Binned:
        """The tables of values with the least squared error."""
        entries, pruned = 1 << self.scheme.bits, self.scheme.sparsity > 0
        low, high = self._range()
        histogram = Histogram.empty(low, high, bins_for(entries))
        for values, part in self._parts():
            histogram.add(values, self._importance(part))
        clusters = cluster(histogram, entries - pruned)
        of_bins, table = clusters.of_bins(histogram.weight.shape[1]), clusters.table.float()
        if pruned:
            return _Binned(torch.nn.functional.pad(table, (1, 0)), of_bins + 1, histogram)
        return _Binned(table, of_bins, histogram)

    def balanced(self) -> _Balanced:
        """The scale with the least squared error: of all bins, that from which on magnitudes are rounded to 1.5."""
        high = torch.maximum(*(end.abs() for end in self._range()))
        histogram = Histogram.empty(torch.zeros_like(high), high, _MAGNITUDE_BINS)
        for values, part in self._parts():
            histogram.add(values.abs(), self._importance(part))
        return _Balanced(best_scale(histogram))

    def indices(self, tabulated: _Binned | _Balanced) -> Tensor:
        """The index of every weight, uint8 [n, K]."""
        result = torch.empty(self.weight.shape, dtype=torch.uint8)
        for values, part in self._parts():
            chosen, kept = tabulated.indices(values).view(result[part].shape), self._kept(part)
            result[part] = chosen if kept is None else chosen.mul_(kept)
        return result

    def _range(self) -> tuple[Tensor, Tensor]:
        """The least and the largest value of each group, float32 [G]."""
        ends = [torch.aminmax(values, dim=1) for values, _ in self._parts()]
        low, high = torch.stack([e.min for e in ends]).amin(0), torch.stack([e.max for e in ends]).amax(0)
        _require_float16(torch.maximum(high, -low), self.name)
        return low, high

    def _parts(self) -> Iterator[tuple[Tensor, slice]]:
        """Values as float32 [G, M] and the rows they come from; a group above the block's size comes in pieces."""
        rows, width = self.weight.shape
        groups = rows // self.shared
        step = rows if groups > 1 else max(1, _BLOCK_VALUES // width)
        for start in range(0, rows, step):
            part = slice(start, min(rows, start + step))
            yield self.weight[part].float().reshape(groups, -1), part

    def _importance(self, part: slice) -> Tensor | None:
        """How much the error of each value counts, float32 [G, M]; None where all count alike."""
        kept = self._kept(part)
        if self.moments is None and kept is None:
            return None
        groups = len(self.weight) // self.shared
        counts = (
            torch.ones(self.weight[part].shape) if self.moments is None else self.moments.expand_as(self.weight[part])
        )
        return (counts if kept is None else counts * kept).reshape(groups, -1)

    def _kept(self, part: slice) -> Tensor | None:
        """Bool [n, K]: the weights that stay; None where all do."""
        if not self.scheme.sparsity:
            return None
        size = self.weight[part].float().abs()
        size = size if self.moments is None else size * self.moments.sqrt()
        return kept_weights(size, self.scheme.sparsity, self.scheme.sparse_block)


def kept_weights(size: Tensor, sparsity: float, block: int = 0) -> Tensor:
    """All but the smallest share of each row, or of each block of it: bool [n, K]."""
    width = size.shape[1]
    block = block if block and width % block == 0 else width
    parts = size.view(-1, block)
    dropped = round(sparsity * block)
    kept = torch.ones_like(parts, dtype=torch.bool)
    if dropped:
        kept.scatter_(1, parts.topk(dropped, 1, largest=False).indices, False)
    return kept.view(size.shape)


def best_scale(histogram: Histogram) -> Tensor:
    """The scale of the balanced set with the least weighted squared error for magnitudes: float32 [G].

    With the magnitudes from a bin on rounded to 1.5 and those before it to 0.5, the best scale is above / below; the
    error that it saves is above^2 / below.
    """
    weight, total = histogram.sums
    small, large = (weight, total), (weight[:, -1:] - weight, total[:, -1:] - total)
    above = _HALF * small[1] + _WHOLE * large[1]
    below = _HALF**2 * small[0] + _WHOLE**2 * large[0]
    best = (above.square() / below.clamp_min(1e-30)).argmax(1, keepdim=True)
    return (above / below.clamp_min(1e-30)).gather(1, best)[:, 0].float()


def _require_float16(largest: Tensor, name: str) -> None:
    if not math.isfinite(float(largest.max())):
        raise InputError(
            what="a weight holds NaN or infinity",
            where=name,
            why="the checkpoint is damaged, or training diverged",
            fix="check the checkpoint; quantising it would hide the damage",
            code="E173",
        )
    if float(largest.max()) > torch.finfo(torch.float16).max:
        raise InputError(
            what=f"a weight of {float(largest.max()):.3g} does not fit into a table of float16 values",
            where=name,
            fix="leave the layer in float or integers by a rule in the recipe",
            code="E174",
        )
