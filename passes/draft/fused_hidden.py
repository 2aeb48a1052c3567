"""Return one hidden state made of those before three layers, for a predictor that goes on from them (EAGLE-3).

    h0 -> ... -> hA -> ... -> hB -> ... -> hC -> ... -> norm -> lm_head -> logits
    ==>
    the same, and cat(hA, hB, hC) [1,S,3H] -> linear [H,3H] -> hidden [1,S,H]

(EAGLE-3, Li et al. 2025, arXiv 2503.01840.) The matrix is the predictor's first one; here it is computed once a token,
and the predictor reads its own hidden states as it reads these. Exact: nothing else changes.

Legality: as of ``early_exit``, whose hidden states these are. Measured on a tiny random Llama of four layers (hidden
size 32): 3 operators and 12,288 bytes more.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import GraphModule

from edgec.errors import InputError
from edgec.ir.program import Effect, Interface, Program, TensorType
from edgec.passes.contract import output_node
from edgec.passes.draft.early_exit import hidden_states
from edgec.passes.draft.hidden_output import HIDDEN
from edgec.passes.graph.emit import Emitter
from edgec.passes.graph.weight_edits import parameter

aten = torch.ops.aten
WEIGHT = "draft_fc"


class FusingMatrix:
    """The matrix [H, 3H] in its stored dtype; among a pass's options it is its file."""

    def __init__(self, value: Tensor, file: str) -> None:
        self.value, self._file = value, file

    def __str__(self) -> str:
        return self._file


@dataclass(frozen=True)
class FusedHidden:
    """Add a second output with the fused hidden states of all tokens of a call; exact.

    Attributes:
        layers: those before which the hidden states are taken.
        matrix: makes one of them.
    """

    layers: tuple[int, ...]
    matrix: FusingMatrix
    name: str = "fused_hidden"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """The hidden states before these layers can be found."""
        if max(self.layers) >= len(hidden_states(program.graph)):
            raise InputError(
                what="the hidden states between this model's layers cannot be found",
                where=self.name,
                why="a predictor reads those before three of them",
                fix="leave --draft-heads out",
                code="E845",
            )

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Join the three and return the result."""
        found, output = hidden_states(graph), output_node(graph)
        with graph.graph.inserting_before(output):
            emit = Emitter(graph.graph)
            joined = emit(aten.cat.default, [found[layer] for layer in self.layers], -1)
            weight = parameter(graph, WEIGHT, self.matrix.value, joined)
            if self.matrix.value.dtype != torch.float32:
                weight = emit(aten.to.dtype, weight, torch.float32)
            hidden = emit(aten.linear.default, joined, weight)
        output.args = ((output.all_input_nodes[0], hidden),)
        (logits, *_), tokens = program.interface.outputs, program.interface.inputs[0]
        given = TensorType(HIDDEN, torch.float32, (1, tokens.shape[1], self.matrix.value.shape[0]))
        return Interface(program.interface.inputs, (logits, given), program.interface.states)

    def ensures(self, program: Program) -> None:
        """The outputs are ``logits`` and ``hidden``."""
        assert [output.name for output in program.interface.outputs] == ["logits", HIDDEN]
