"""Operators take tensors; the few that stand for sizes, axes or switches are read as Python values here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

UnaryFunction = Callable[[Tensor], Tensor]
BinaryFunction = Callable[[Tensor, Tensor], Tensor]


def of_x(function: UnaryFunction) -> Callable[..., Tensor]:
    """A function of one tensor under MIL's name for it."""

    def run(x: Tensor) -> Tensor:
        return function(x)

    return run


def of_x_and_y(function: BinaryFunction) -> Callable[..., Tensor]:
    """A function of two tensors under MIL's names for them."""

    def run(x: Tensor, y: Tensor) -> Tensor:
        return function(x, y)

    return run


def ints(values: Any) -> list[int]:
    """A tensor of any shape, or a sequence, as a list of ints."""
    if isinstance(values, Tensor):
        return [int(value) for value in values.reshape(-1).tolist()]
    return [int(value) for value in values]


def sizes(values: Any, x: Tensor, dim: int) -> list[int]:
    """Sizes as one int per spatial dimension; a single one is repeated."""
    listed = ints(values)
    return listed if len(listed) == x.dim() - dim else listed * (x.dim() - dim)


def on_channels(values: Tensor, x: Tensor) -> Tensor:
    """``values``, one per channel, shaped to broadcast over ``x``, whose dimension 1 is the channels'."""
    return values.reshape(-1, *[1] * (x.dim() - 2))


OperatorTable = Mapping[str, Callable[..., Any]]
