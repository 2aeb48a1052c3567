"""Keep learned grids: scales that training found for a weight, and that an export must use as they are.

``edgec adapt`` stores them with the weights; ``record_grids`` hands them to a captured graph, and a pass that puts
a weight on a grid of the same scheme asks ``learned_scale`` first. Integers are then ``nearest(weight / scale)``, by
the arithmetic of training, so that an exported model is bit for bit the one that was trained.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import GraphModule

from edgec.ir.weight_decision import Decision
from edgec.ir.weight_scheme import BALANCED_SET, WeightScheme
from edgec.passes.compress.rounding.weight_grid import QuantizedWeight
from edgec.passes.compress.rounding.weight_tables import WeightTable

GRIDS = "edgec_grids"
LEARNED = "learned"
_BALANCED_LEVELS = (-3, 3, 2)
# The smallest number that float16 holds: a row of zeros has no scale of its own, and 0 would make NaN of it.
SMALLEST_SCALE = 2.0**-24


@dataclass(frozen=True)
class Levels:
    """The integers a weight may be: ``low``, ``low + step``, ... ``high``."""

    low: int
    high: int
    step: int = 1

    @property
    def reach(self) -> tuple[float, float]:
        """The range of values that are rounded rather than clipped, in units of the scale."""
        return self.low - self.step / 2, self.high + self.step / 2

    def nearest(self, values: Tensor) -> Tensor:
        """The nearest integers of the set, as floats; ``values`` are in units of the scale."""
        if self.step == 1:
            return values.round().clamp_(self.low, self.high)
        return (values / 2).ceil().mul_(2).sub_(1).clamp_(self.low, self.high)


@dataclass(frozen=True)
class LearnedGrid:
    """The learned scales of one weight, in one scheme.

    Attributes:
        parameter: the weight's name in the model.
        scheme: how the weight is stored, activations left out.
        scale: float32 [A, B], one entry for each N * K / (A * B) neighbouring values.
    """

    parameter: str
    scheme: WeightScheme
    scale: Tensor


def levels_of(decision: Decision) -> Levels:
    """The integers that a decision allows."""
    assert decision.used is not None
    return Levels(*(_BALANCED_LEVELS if _balanced(decision) else decision.used.bounds))


def grid_scheme(decision: Decision) -> WeightScheme:
    """The scheme that a learned grid belongs to: the balanced set by its own name, whatever holds it."""
    scheme = decision.requested if _balanced(decision) else decision.used
    assert scheme is not None
    return scheme.weights_only


def needs_half(decision: Decision) -> bool:
    """Whether scales must be ones that bfloat16 can hold, as the balanced set's are, whose tables are float16."""
    return grid_scheme(decision).scale_bits == 16


def stored_scale(log_scale: Tensor, half: bool) -> Tensor:
    """The scale that a file holds, float32."""
    scale = log_scale.exp().clamp_min(SMALLEST_SCALE)
    return scale.to(torch.bfloat16).float() if half else scale


def record_grids(graph: GraphModule, grids: Iterable[LearnedGrid]) -> None:
    """Record learned grids in a graph, for the passes that will quantise it."""
    graph.meta[GRIDS] = tuple(grids)


def learned_scale(graph: GraphModule, decision: Decision) -> Tensor | None:
    """The learned scales of a weight in its decided scheme, or None."""
    if not graph.meta.get(GRIDS):
        return None
    wanted = (decision.name, grid_scheme(decision))
    return next((g.scale for g in graph.meta[GRIDS] if (g.parameter, g.scheme) == wanted), None)


def on_learned_grid(weight: Tensor, scale: Tensor, decision: Decision) -> QuantizedWeight:
    """Round a weight to the grid that was learned for it.

    Args:
        weight: [N, K], any float dtype.
        scale: float32 [A, B] as stored.
        decision: what was decided for the weight.
    """
    rows, width = weight.shape
    groups = weight.float().reshape(*scale.shape, -1) * (1.0 / scale).unsqueeze(-1)
    integers = levels_of(decision).nearest(groups).to(torch.int8).view(rows, width)
    each = scale.repeat_interleave(rows // scale.shape[0], 0)
    return QuantizedWeight(integers, each, torch.zeros_like(each, dtype=torch.int8))


def learned_table(weight: Tensor, scale: Tensor, decision: Decision) -> WeightTable:
    """Round a weight to its learned balanced set, as look-up tables: one for each scale, exact in float16."""
    rounded = on_learned_grid(weight, scale, decision)
    low, high, step = _BALANCED_LEVELS
    table = scale.view(-1, 1) * torch.arange(low, high + 1, step)
    return WeightTable(((rounded.integers - low) // step).to(torch.uint8), table, len(weight) // len(table))


def _balanced(decision: Decision) -> bool:
    return decision.requested is not None and decision.requested.kind == BALANCED_SET
