"""Choose one of several widths for each layer so that the expected loss is least under a budget of bits.

Only choices on the lower convex hull of a layer's (bits, loss) are considered. Starting from the smallest of each, the
next step is always the one that saves most loss per bit, in whatever layer: at every point of the path, no other choice
on the hulls with as many bits has less loss.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgec.ir.weight_scheme import WeightScheme


@dataclass(frozen=True)
class WidthChoice:
    """One possible width of one layer.

    Attributes:
        scheme: how its weights are stored.
        bits: of all its weights, with scales, tables and the sums of rows that kernels read.
        loss: expected increase of the divergence from the float model, nats per token.
    """

    scheme: WeightScheme
    bits: float
    loss: float


ChosenWidths = dict[str, WidthChoice]


def convex_hull(choices: Sequence[WidthChoice]) -> list[WidthChoice]:
    """The choices worth taking, from few bits to many: each saves less per bit than the one before it."""
    kept: list[WidthChoice] = []
    for choice in sorted(choices, key=lambda each: (each.bits, each.loss)):
        if kept and choice.loss >= kept[-1].loss:
            continue
        while len(kept) > 1 and _saved_per_bit(kept[-2], kept[-1]) <= _saved_per_bit(kept[-1], choice):
            kept.pop()
        kept.append(choice)
    return kept


def trade_off_path(layers: Mapping[str, Sequence[WidthChoice]]) -> Iterator[ChosenWidths]:
    """All points of the trade-off, from the fewest bits to the most; each is a new mapping."""
    hulls = {name: convex_hull(choices) for name, choices in layers.items()}
    chosen = {name: choices[0] for name, choices in hulls.items()}
    yield dict(chosen)
    steps = [_step(name, choices, 1) for name, choices in hulls.items() if len(choices) > 1]
    heapq.heapify(steps)
    while steps:
        _, name, index = heapq.heappop(steps)
        chosen[name] = hulls[name][index]
        if index + 1 < len(hulls[name]):
            heapq.heappush(steps, _step(name, hulls[name], index + 1))
        yield dict(chosen)


def allocate(layers: Mapping[str, Sequence[WidthChoice]], budget: float) -> ChosenWidths | None:
    """The last point of the path within a total budget of bits; None where even the smallest exceeds it."""
    best = None
    for point in trade_off_path(layers):
        if total_bits(point) > budget:
            break
        best = point
    return best


def total_bits(chosen: Mapping[str, WidthChoice]) -> float:
    """The bits of all layers together."""
    return sum(choice.bits for choice in chosen.values())


def total_loss(chosen: Mapping[str, WidthChoice]) -> float:
    """The expected loss of all layers, as if their losses added up: nats per token."""
    return sum(choice.loss for choice in chosen.values())


def _saved_per_bit(small: WidthChoice, large: WidthChoice) -> float:
    """The loss saved per bit between two choices."""
    return (small.loss - large.loss) / (large.bits - small.bits)


def _step(name: str, choices: Sequence[WidthChoice], index: int) -> tuple[float, str, int]:
    return -_saved_per_bit(choices[index - 1], choices[index]), name, index
