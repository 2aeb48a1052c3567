"""Find k-means clusters in one dimension for many groups of values at once, on histograms.

A group's values are counted in fine bins; clusters are ranges of bins, and what a set of ranges explains follows from
prefix sums alone: a cluster of weight n and sum s saves s^2 / n of squared error. Boundaries start where the cube root
of the density asks for them (Panter and Dite 1951) and move a little by Lloyd's rule. Then, at ever smaller steps, the
best of a few positions around each boundary is chosen for all boundaries together by dynamic programming, which finds
what moving one boundary after the other cannot. Measured on heavy-tailed values, groups of 16 rows of 1,024 or 2,048,
against the exact optimum (kmeans1d, which coremltools uses): squared error x 1.0000 to 1.0012 at 2 to 8 bits; CPU time
a value 51 ns at 4 bits against 1,385.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

BINS, BINS_PER_ENTRY = 4096, 64
_LLOYD_STEPS = 10
_POSITIONS = 17
# Shares of the distance to the next boundary within which a boundary's positions lie; 0: neighbouring bins.
_REACHES = (2.0, 2.0, 1.0, 0.5, 0.25, 0.1, 0.0)
_SMOOTHED = 256
_TINY = 1e-30


@dataclass(frozen=True)
class Histogram:
    """The values of G groups, counted in B bins of equal width.

    Attributes:
        low: the lower end of the first bin, float32 [G].
        width: of a bin, float32 [G].
        weight: how much the values of a bin count, float64 [G, B].
        total: sum of weight x value of a bin, float64 [G, B].
    """

    low: Tensor
    width: Tensor
    weight: Tensor
    total: Tensor

    @classmethod
    def empty(cls, low: Tensor, high: Tensor, bins: int) -> Histogram:
        """A histogram without values, its bins from ``low`` to ``high`` (float32 [G])."""
        zeros = torch.zeros(len(low), bins, dtype=torch.float64)
        return cls(low, ((high - low) / bins).clamp_min(_TINY), zeros, zeros.clone())

    def bins_of(self, values: Tensor) -> Tensor:
        """The bin of each value, counted on from group to group: int32 [G, M] for float32 [G, M]."""
        groups, bins = self.weight.shape
        in_group = ((values - self.low[:, None]) * (1.0 / self.width)[:, None]).int().clamp_(0, bins - 1)
        return in_group.add_((torch.arange(groups, dtype=torch.int32) * bins)[:, None])

    def add(self, values: Tensor, importance: Tensor | None) -> None:
        """Count values, float32 [G, M], each with the weight that ``importance`` [G, M] gives it, or 1."""
        places, size = self.bins_of(values).view(-1), self.weight.numel()
        weight = torch.bincount(places, None if importance is None else importance.reshape(-1), size)
        product = values if importance is None else values * importance
        self.weight.view(-1).add_(weight)
        self.total.view(-1).add_(torch.bincount(places, product.reshape(-1), size))

    @cached_property
    def sums(self) -> tuple[Tensor, Tensor]:
        """The sums of weight and total over all bins before each bin, float64 [G, B + 1]."""
        return _prefix(self.weight), _prefix(self.total)


def _prefix(values: Tensor) -> Tensor:
    return torch.cat([values.new_zeros(len(values), 1), values.cumsum(1)], 1)


@dataclass(frozen=True)
class Clusters:
    """Clusters of each group.

    Attributes:
        table: float64 [G, k], ascending.
        bounds: the bin in which each next cluster begins, int64 [G, k - 1].
    """

    table: Tensor
    bounds: Tensor

    def of_bins(self, bins: int) -> Tensor:
        """The cluster of every bin, uint8 [G * bins]."""
        groups, count = self.bounds.shape
        steps = torch.zeros(groups, bins + 1, dtype=torch.uint8)
        steps.scatter_add_(1, self.bounds, torch.ones(groups, count, dtype=torch.uint8))
        return steps[:, :-1].cumsum(1, dtype=torch.uint8).view(-1)


def bins_for(entries: int) -> int:
    """The number of bins that tables with ``entries`` entries need."""
    return max(BINS, BINS_PER_ENTRY * entries)


def cluster(histogram: Histogram, entries: int) -> Clusters:
    """The ``entries`` values that stand for each group with the least weighted squared error found."""
    bins = histogram.weight.shape[1]
    centres = _lloyd(histogram, _start(histogram, entries))
    bounds = _middles(histogram, centres).clamp_(0, bins).round()
    for reach in _REACHES if entries > 1 else ():
        bounds = _best_nearby(histogram, bounds, reach)
    return Clusters(_means(histogram, bounds.long()), bounds.long())


def _start(histogram: Histogram, entries: int) -> Tensor:
    """Centres spaced by the cube root of the smoothed density, float64 [G, entries]."""
    half = histogram.weight.shape[1] // _SMOOTHED
    smooth = torch.nn.functional.avg_pool1d(
        histogram.weight[:, None], 2 * half + 1, stride=1, padding=half, count_include_pad=False
    )[:, 0]
    share = smooth.pow(1 / 3).cumsum(1)
    wanted = (torch.arange(entries, dtype=torch.float64) + 0.5) / entries * share[:, -1:]
    places = torch.searchsorted(share, wanted).clamp_(max=share.shape[1] - 1) + 0.5
    return places * histogram.width[:, None] + histogram.low[:, None]


def _middles(histogram: Histogram, centres: Tensor) -> Tensor:
    """The middles between neighbouring centres, in bins."""
    return ((centres[:, 1:] + centres[:, :-1]) / 2 - histogram.low[:, None]) / histogram.width[:, None]


def _lloyd(histogram: Histogram, centres: Tensor) -> Tensor:
    bins = histogram.weight.shape[1]
    for _ in range(_LLOYD_STEPS):
        centres = _means(histogram, _middles(histogram, centres).clamp_(0, bins).round().long())
    return centres


def _means(histogram: Histogram, bounds: Tensor) -> Tensor:
    """The weighted mean of each cluster; where one is empty, the lower end of its range."""
    bins = histogram.weight.shape[1]
    ends = torch.nn.functional.pad(torch.nn.functional.pad(bounds, (1, 0)), (0, 1), value=bins)
    weight, total = (sums.gather(1, ends).diff(dim=1) for sums in histogram.sums)
    lower = ends[:, :-1] * histogram.width[:, None].double() + histogram.low[:, None]
    return torch.where(weight > 0, total / weight.clamp_min(_TINY), lower)


def _best_nearby(histogram: Histogram, bounds: Tensor, reach: float) -> Tensor:
    """The best choice of one position around each boundary, all boundaries together (Viterbi), float64 [G, k - 1]."""
    places = _positions(bounds, histogram.weight.shape[1], reach)
    weight, total = (sums.gather(1, places.flatten(1)).view(places.shape) for sums in histogram.sums)
    all_weight, all_total = (sums[:, -1:] for sums in histogram.sums)
    score, choices = _saved(weight[:, 0], total[:, 0]), []
    for j in range(1, places.shape[1]):
        between = (weight[:, j, None] - weight[:, j - 1, :, None], total[:, j, None] - total[:, j - 1, :, None])
        score, chosen = (_saved(*between) + score[..., None]).max(1)
        choices.append(chosen)
    last = (score + _saved(all_weight - weight[:, -1], all_total - total[:, -1])).argmax(1, keepdim=True)
    return places.gather(2, _traced(choices, last)[..., None])[..., 0].double()


def _saved(weight: Tensor, total: Tensor) -> Tensor:
    """The squared error that one value instead of zero saves; never chosen where the range runs backwards."""
    gain = total * total / weight
    return gain.masked_fill_(weight == 0, 0.0).masked_fill_(weight < 0, -torch.inf)


def _traced(choices: list[Tensor], last: Tensor) -> Tensor:
    """The chosen position of each boundary, from the last one back: int64 [G, k - 1]."""
    path = [last]
    for chosen in reversed(choices):
        path.append(chosen.gather(1, path[-1]))
    return torch.cat(path[::-1], 1)


def _positions(bounds: Tensor, bins: int, reach: float) -> Tensor:
    """Positions around each boundary, its own in the middle; int64 [G, k - 1, positions], in bins."""
    half = (_POSITIONS - 1) // 2
    steps = torch.arange(-half, half + 1, dtype=torch.float64)
    ends = torch.nn.functional.pad(torch.nn.functional.pad(bounds, (1, 0)), (0, 1), value=float(bins))
    below, above = bounds - ends[:, :-2], ends[:, 2:] - bounds
    gap = torch.where(steps < 0, below[..., None], above[..., None]) * (reach / half)
    return (bounds[..., None] + steps * gap.clamp_min(1.0)).round_().clamp_(0, bins).long()
