"""Make one operator of each layer and direction of an LSTM or a GRU.

    x [B, T, I] -> lstm(x, (h, c), [W_ih, W_hh, b_ih, b_hh]) -> y [B, T, H], h, c
    ==>
    linear(x, W_ih, b_ih + b_hh) [B, T, 4 H] -> edgec::lstm(h, c, W_hh) [B, T + 1, H] -> y, c

ExecuTorch takes a layer apart step by step: three layers over 160 steps are some 20,000 operators. The input's part of
all steps is one linear layer, which is multiplied and rounded as others are; the loop is a kernel of edgec's engine
(``ir/recurrent_layers.py``), or ExecuTorch's own (``backends/cpu/rewrites/looped_layers.py``). Legality: no dropout in
training, and no projection of the hidden state. Exact. Measured on Resemblyzer's speaker encoder (three LSTMs of 256
over 160 steps): unrolled for android-cpu 1,338 s, 6.2 GB and 487 delegates; as edgec's operators 82 CPU s for 8 bits
and then float on a busy machine, 0.50 GB and 6 delegates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.ir.program import Effect, Interface, Program
from edgec.ir.recurrent_layers import GRU, LSTM
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter
from edgec.passes.graph.recurrent_walk import LayerStates, LayerWeights, RunLayer, hand_on, layer_weights, walked

aten = torch.ops.aten


@dataclass(frozen=True)
class FuseRecurrentLayers:
    """Replace LSTM and GRU layers by operators with a loop; exact."""

    name: str = "fuse_recurrent_layers"
    effect: Effect = Effect.EXACT

    def concerns(self, program: Program) -> bool:
        """Whether there is such a layer."""
        return any(map(_is_legal, nodes_of(program.graph, *_LAYERS)))

    def requires(self, program: Program) -> None:
        """No requirement: other layers are left as they are."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Write each layer in its own place."""
        for node in nodes_of(graph, *_LAYERS):
            if _is_legal(node):
                with graph.graph.inserting_before(node):
                    hand_on(node, walked(Emitter(graph.graph), node, _LAYERS[node.target]))
                graph.graph.erase_node(node)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No legal layer is left."""
        assert not any(map(_is_legal, nodes_of(program.graph, *_LAYERS)))


def _is_legal(node: Node) -> bool:
    given: Any = node.args
    _, _, parameters, biases, count, dropout, train, both, _ = given
    weights = layer_weights(parameters, biases, (1 + both) * count)
    return not (train and dropout) and all(each.project is None for each in weights)


def _lstm(
    emit: Emitter, rows: Node, states: LayerStates, weights: LayerWeights, backwards: bool
) -> tuple[Node, LayerStates]:
    hidden, cell = (emit(aten.squeeze.dim, state, 0) for state in states)
    bias = weights.input_bias
    if bias is not None:
        bias = emit(aten.add.Tensor, bias, weights.hidden_bias)
    given = _linear(emit, rows, weights.input, bias)
    made = emit(LSTM, given, hidden, cell, weights.hidden, None, backwards)
    outputs = emit(aten.slice.Tensor, made, 1, 0, -1)
    return outputs, (_row(emit, made, 0 if backwards else -2), _row(emit, made, -1))


def _gru(
    emit: Emitter, rows: Node, states: LayerStates, weights: LayerWeights, backwards: bool
) -> tuple[Node, LayerStates]:
    hidden = emit(aten.squeeze.dim, states[0], 0)
    given = _linear(emit, rows, weights.input, weights.input_bias)
    made = emit(GRU, given, hidden, weights.hidden, weights.hidden_bias, None, backwards)
    return made, (_row(emit, made, 0 if backwards else -1),)


def _linear(emit: Emitter, x: Node, weight: Node, bias: Node | None) -> Node:
    return emit(aten.linear.default, x, weight, *([] if bias is None else [bias]))


def _row(emit: Emitter, made: Node, place: int) -> Node:
    """One step of all sequences, [1, B, H]."""
    return emit(aten.unsqueeze.default, emit(aten.select.int, made, 1, place), 0)


_LAYERS: Mapping[Any, RunLayer] = {aten.lstm.input: _lstm, aten.gru.input: _gru}
