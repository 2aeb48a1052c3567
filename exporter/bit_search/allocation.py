"""Choose one of several widths for each layer so that the expected loss is least under a budget of bits.

Only choices on the lower convex hull of a layer's (bits, loss) are ever taken. Beginning with the smallest of each, the
step that saves most loss per bit is taken next, wherever it lies: at every point of the way no other choice of as many
bits loses less among choices on the hulls.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgec.ir.weight_scheme import WeightScheme


@dataclass(frozen=True)
class Choice:
    """A width for one layer.

    Attributes:
        scheme: how its weights are stored.
        bits: of all its weights, scales and tables included.
        loss: expected increase of the divergence from the float model, nats per token.
    """

    scheme: WeightScheme
    bits: float
    loss: float


Chosen = dict[str, Choice]


def convex_hull(choices: Sequence[Choice]) -> list[Choice]:
    """The choices worth taking, from few bits to many: each saves less per bit than the one before it."""
    found: list[Choice] = []
    for choice in sorted(choices, key=lambda each: (each.bits, each.loss)):
        if found and choice.loss >= found[-1].loss:
            continue
        while len(found) > 1 and _saved(found[-2], found[-1]) <= _saved(found[-1], choice):
            found.pop()
        found.append(choice)
    return found


def trade_off_path(layers: Mapping[str, Sequence[Choice]]) -> Iterator[Chosen]:
    """All points from the fewest bits to the most; each is a new mapping."""
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


def allocate(layers: Mapping[str, Sequence[Choice]], budget: float) -> Chosen | None:
    """The last point of the path within a budget of bits in all; None where the smallest is beyond it."""
    best = None
    for point in trade_off_path(layers):
        if total_bits(point) > budget:
            break
        best = point
    return best


def total_bits(chosen: Mapping[str, Choice]) -> float:
    """Of all layers."""
    return sum(choice.bits for choice in chosen.values())


def total_loss(chosen: Mapping[str, Choice]) -> float:
    """Expected, as if the layers' losses added up: nats per token."""
    return sum(choice.loss for choice in chosen.values())


def _saved(small: Choice, large: Choice) -> float:
    """Loss that a bit saves between two choices."""
    return (small.loss - large.loss) / (large.bits - small.bits)


def _step(name: str, choices: Sequence[Choice], index: int) -> tuple[float, str, int]:
    return -_saved(choices[index - 1], choices[index]), name, index
