"""Return the hidden states that the lm_head reads, for a predictor of further tokens that goes on from them.

    hidden [1,S,H] -> index_select(logit_index) -> linear(lm_head) -> logits [1,K,V]
    ==>
    the same, and as a second output hidden [1,S,H] (of all tokens), or [1,K,H] (of the selected ones)

A model that returns hidden states of its own beside the logits (EAGLE) has these selected instead.

Exact: nothing else changes. Legality: ``last_logits`` has run. The last norm then works for all tokens of a call.
Measured on a tiny random Llama (2 layers, hidden size 32): 112 operators before and after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.program import Effect, Interface, Program, TensorType
from edgec.passes.contract import output_node
from edgec.passes.prefill.last_logits import lm_head_linear

aten = torch.ops.aten
HIDDEN: Final = "hidden"


@dataclass(frozen=True)
class HiddenOutput:
    """Add a second output with what the lm_head reads; exact.

    Attributes:
        every: of all tokens of a call; else of those whose logits are wanted.
    """

    every: bool = True
    name: str = "hidden_output"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """``last_logits`` has run."""
        if program.spec is None or _selection(program.graph) is None:
            raise InputError(
                what="the hidden states that the lm_head reads cannot be returned",
                where=self.name,
                why="the graph has no lm_head that reads a selection of rows",
                fix="leave --draft-heads out",
                code="E845",
            )

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Return the selected hidden states, or those before the selection."""
        selection, output = _selection(graph), output_node(graph)
        assert selection is not None and program.spec is not None
        result, *more = _returned(output)
        hidden: Any = selection.args[0] if self.every else selection
        if more:
            with graph.graph.inserting_before(output):
                hidden = graph.graph.call_function(aten.index_select.default, (more[0], 1, selection.args[2]))
        output.args = ((result, hidden),)
        (logits, *_), tokens = program.interface.outputs, program.interface.inputs[0]
        rows = (tokens if self.every else logits).shape[1]
        given = TensorType(HIDDEN, torch.float32, (1, rows, program.spec.hidden_size))
        return Interface(program.interface.inputs, (logits, given), program.interface.states)

    def ensures(self, program: Program) -> None:
        """The outputs are ``logits`` and ``hidden``."""
        assert [output.name for output in program.interface.outputs] == ["logits", HIDDEN]


def _returned(output: Node) -> list[Node]:
    """What a graph returns: logits, and the hidden states where the model has some of its own."""
    values: Any = output.args[0]
    return list(values) if isinstance(values, tuple | list) else [values]


def _selection(graph: GraphModule) -> Node | None:
    """The selection of rows in front of the lm_head."""
    linear = lm_head_linear(graph)
    node = linear.args[0] if linear is not None else None
    selects = isinstance(node, Node) and node.target is aten.index_select.default
    return node if selects and isinstance(node, Node) else None
