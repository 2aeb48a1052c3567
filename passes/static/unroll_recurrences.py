"""Write LSTM, GRU and RNN layers and their cells out, step by step.

    x [B, T, I] -> lstm(x, (h, c), [W_ih, W_hh, b_ih, b_hh]) -> y [B, T, H]
    ==>
    linear(x, W_ih, b_ih) [B, T, 4 H] -> T times: linear(h, W_hh, b_hh) -> gates -> c, h -> y [B, T, H]

coremltools knows no recurrent layer of an exported graph (E404), and a layer that ExecuTorch takes apart afterwards
keeps its zeros in float32. Written out before anything is rounded, its matrices are linear layers like all others, and
those that read the input see all steps at once. Several layers, both directions, states as inputs, projections, and
layers without biases are the same. Legality: a length that is fixed, without dropout. Exact.
Measured on an LSTM of 32 channels over 8 steps: 6 operators before, 137 after; 16 more for each further step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter
from edgec.passes.graph.recurrent_walk import LayerStates, LayerWeights, hand_on, is_fixed, states_of, walked

aten = torch.ops.aten


@dataclass(frozen=True)
class UnrollRecurrences:
    """Replace recurrent layers and cells by linear layers and gates; exact.

    ``cells_alone``: leave layers of several steps as they are.
    """

    cells_alone: bool = False
    name: str = "unroll_recurrences"
    effect: Effect = Effect.EXACT

    def concerns(self, program: Program) -> bool:
        """Whether there is one."""
        return bool(nodes_of(program.graph, *self._targets))

    def requires(self, program: Program) -> None:
        """No requirement: layers of varying length are left as they are."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Write each layer in its own place."""
        for node in nodes_of(graph, *self._targets):
            if node.target in _CELLS or is_fixed(node):
                with graph.graph.inserting_before(node):
                    hand_on(node, _cell(graph, node) if node.target in _CELLS else _layer(graph, node))
                graph.graph.erase_node(node)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No layer of fixed length and no cell is left."""
        assert not nodes_of(program.graph, *_CELLS)
        assert self.cells_alone or not any(map(is_fixed, nodes_of(program.graph, *_LAYERS)))

    @property
    def _targets(self) -> tuple[Any, ...]:
        return (*_CELLS, *(() if self.cells_alone else _LAYERS))


CellStep = Callable[[Emitter, Node, LayerStates, LayerWeights], LayerStates]
"""Takes what the input adds to the gates at one step, and the states before it."""


def _lstm_step(emit: Emitter, given: Node, states: LayerStates, weights: LayerWeights) -> LayerStates:
    hidden, cell = states
    gates = emit(aten.add.Tensor, given, _linear(emit, hidden, weights.hidden, None))
    let_in, keep, new, show = _parts(emit, gates, 4)
    kept = emit(aten.mul.Tensor, emit(aten.sigmoid.default, keep), cell)
    taken = emit(aten.mul.Tensor, emit(aten.sigmoid.default, let_in), emit(aten.tanh.default, new))
    cell = emit(aten.add.Tensor, kept, taken)
    hidden = emit(aten.mul.Tensor, emit(aten.sigmoid.default, show), emit(aten.tanh.default, cell))
    return (hidden if weights.project is None else _linear(emit, hidden, weights.project, None)), cell


def _gru_step(emit: Emitter, given: Node, states: LayerStates, weights: LayerWeights) -> LayerStates:
    (hidden,) = states
    own = _linear(emit, hidden, weights.hidden, None)
    if weights.hidden_bias is not None:
        # Added apart: as a bias of each step's layer it would be stored once a step.
        own = emit(aten.add.Tensor, own, weights.hidden_bias)
    added = zip(_parts(emit, given, 3), _parts(emit, own, 3), strict=True)
    (reset, own_reset), (keep, own_keep), (new, own_new) = added
    reset = emit(aten.sigmoid.default, emit(aten.add.Tensor, reset, own_reset))
    keep = emit(aten.sigmoid.default, emit(aten.add.Tensor, keep, own_keep))
    new = emit(aten.tanh.default, emit(aten.add.Tensor, new, emit(aten.mul.Tensor, reset, own_new)))
    kept = emit(aten.mul.Tensor, keep, emit(aten.sub.Tensor, hidden, new))
    return (emit(aten.add.Tensor, kept, new),)


def _plain_step(activation: Any) -> CellStep:
    def step(emit: Emitter, given: Node, states: LayerStates, weights: LayerWeights) -> LayerStates:
        total = emit(aten.add.Tensor, given, _linear(emit, states[0], weights.hidden, None))
        return (emit(activation, total),)

    return step


_LAYERS: Mapping[Any, CellStep] = {
    aten.lstm.input: _lstm_step,
    aten.gru.input: _gru_step,
    aten.rnn_tanh.input: _plain_step(aten.tanh.default),
    aten.rnn_relu.input: _plain_step(aten.relu.default),
}
_CELLS: Mapping[Any, CellStep] = {
    aten.lstm_cell.default: _lstm_step,
    aten.gru_cell.default: _gru_step,
    aten.rnn_tanh_cell.default: _plain_step(aten.tanh.default),
    aten.rnn_relu_cell.default: _plain_step(aten.relu.default),
}


def _cell(graph: GraphModule, node: Node) -> Sequence[Node]:
    """One step; inputs and states are [B, C]."""
    emit, given = Emitter(graph.graph), node.args
    x, states, *weights = given[:6]
    assert isinstance(x, Node)
    known = LayerWeights(*weights)  # type: ignore[arg-type]
    row = _given(emit, _CELLS[node.target], emit(aten.unsqueeze.default, x, 1), known)
    before = tuple(emit(aten.unsqueeze.default, state, 1) for state in states_of(states))
    return [emit(aten.squeeze.dim, state, 1) for state in _CELLS[node.target](emit, row, before, known)]


def _layer(graph: GraphModule, node: Node) -> Sequence[Node]:
    """All layers and directions: the output, then each state of all layers [L, B, H]."""
    return walked(Emitter(graph.graph), node, partial(_run, _LAYERS[node.target]))


def _run(
    step: CellStep, emit: Emitter, rows: Node, before: LayerStates, weights: LayerWeights, backwards: bool
) -> tuple[Node, LayerStates]:
    """One layer in one direction over rows [B, T, I]: its outputs [B, T, H] and its last states [1, B, H]."""
    given = _given(emit, step, rows, weights)
    states = tuple(emit(aten.transpose.int, state, 0, 1) for state in before)
    steps = range(rows.meta["val"].shape[1])
    outputs = []
    for place in reversed(steps) if backwards else steps:
        one = emit(aten.slice.Tensor, given, 1, place, place + 1) if len(steps) > 1 else given
        states = step(emit, one, states, weights)
        outputs.append(states[0])
    ordered = outputs[::-1] if backwards else outputs
    after = tuple(emit(aten.transpose.int, state, 0, 1) for state in states)
    return emit(aten.cat.default, ordered, 1) if len(ordered) > 1 else ordered[0], after


def _given(emit: Emitter, step: CellStep, rows: Node, weights: LayerWeights) -> Node:
    """What the input adds to the gates of all steps; but for a GRU's, the biases of the hidden state belong to it."""
    given = _linear(emit, rows, weights.input, weights.input_bias)
    if step is _gru_step or weights.hidden_bias is None:
        return given
    return emit(aten.add.Tensor, given, weights.hidden_bias)


def _linear(emit: Emitter, x: Node, weight: Node, bias: Node | None) -> Node:
    return emit(aten.linear.default, x, weight, *([] if bias is None else [bias]))


def _parts(emit: Emitter, gates: Node, count: int) -> list[Node]:
    width = gates.meta["val"].shape[-1] // count
    return [emit(aten.slice.Tensor, gates, -1, index * width, (index + 1) * width) for index in range(count)]
