"""Walk through the layers and directions of a recurrent node of a captured graph: stacked, both ways, any layout.

lstm(x [B, T, I] or [T, B, I], states [L, B, H], parameters of all layers) -> y, states of all layers
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
LayerStates = tuple[Node, ...]
"""The hidden state of one layer and direction; for an LSTM also its cell state."""


@dataclass(frozen=True)
class LayerWeights:
    """The parameters of one layer and direction, by role; ``project`` makes an LSTM's hidden state narrower."""

    input: Node
    hidden: Node
    input_bias: Node | None = None
    hidden_bias: Node | None = None
    project: Node | None = None


RunLayer = Callable[[Emitter, Node, LayerStates, LayerWeights, bool], tuple[Node, LayerStates]]
"""One layer in one direction, ``True``: backwards, over rows [B, T, I]: its outputs [B, T, H]; states are [1, B, H]."""


def is_fixed(node: Node) -> bool:
    """Whether a layer's sizes are numbers, and nothing is left out at random."""
    x, dropout, train = node.args[0], node.args[5], node.args[6]
    assert isinstance(x, Node)
    return all(isinstance(size, int) for size in x.meta["val"].shape) and not (train and dropout)


def walked(emit: Emitter, node: Node, run: RunLayer) -> list[Node]:
    """All layers and directions: the output, then each state of all layers [L, B, H]."""
    given: Any = node.args
    x, states, parameters, biases, count, _, _, both, batch_first = given
    rows = x if batch_first else emit(aten.transpose.int, x, 0, 1)
    first, last = states_of(states), list[LayerStates]()
    weights = layer_weights(parameters, biases, (1 + both) * count)
    for _ in range(count):
        sides = []
        for backwards in (False, True)[: 1 + both]:
            place = len(last)
            before = tuple(emit(aten.slice.Tensor, state, 0, place, place + 1) for state in first)
            outputs, after = run(emit, rows, before, next(weights), backwards)
            sides.append(outputs)
            last.append(after)
        rows = emit(aten.cat.default, sides, -1) if both else sides[0]
    joined = [emit(aten.cat.default, [*each], 0) if len(each) > 1 else each[0] for each in zip(*last, strict=True)]
    return [rows if batch_first else emit(aten.transpose.int, rows, 0, 1), *joined]


def layer_weights(parameters: Sequence[Node], biases: bool, count: int) -> Iterator[LayerWeights]:
    """The parameters of each layer and direction, in torch's order."""
    each = len(parameters) // count
    for start in range(0, len(parameters), each):
        matrices = [*parameters[start : start + each]]
        held = matrices[2:4] if biases else [None, None]
        project = matrices[4 if biases else 2 :]
        yield LayerWeights(*matrices[:2], *held, *project)


def states_of(given: Any) -> Sequence[Node]:
    """The states that a layer or a cell begins with: one, or an LSTM's two."""
    return given if isinstance(given, list | tuple) else [given]


def hand_on(node: Node, results: Sequence[Node]) -> None:
    """Give the results to what read the layer's."""
    for user in list(node.users):
        if user.target is operator.getitem and isinstance(node.meta["val"], list | tuple):
            user.replace_all_uses_with(results[user.args[1]])  # type: ignore[index]
            node.graph.erase_node(user)
    if node.users:
        node.replace_all_uses_with(results[0])
