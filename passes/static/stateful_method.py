"""Give a decoder the one method of any length that another runtime calls.

    tokens int64 [1,S], positions int64 [S]                                     S varies
    ==>
    inputIds int32 [1,S], causalMask float16 [1,1,1,E]                          S and E vary
      edgec::call_positions(inputIds, causalMask) -> positions

The names are those of ``ir/stateful_call.py``: the runtime says by the size of its second input how far the text goes,
and reads the logits of the call's last row, so that all rows have them. Legality: a decoder that takes tokens and
positions alone, without ``last_logits``. Exact. Measured on examples/tiny-stories: one operator more than before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule

from edgec.errors import InputError
from edgec.ir.program import Dynamic, Effect, Interface, Program, TensorType
from edgec.ir.stateful_call import CALL_POSITIONS, StatefulNames
from edgec.passes.contract import last_placeholder, nodes_of, placeholder
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_BEFORE = ("tokens", "positions")
# A size at which a tensor is made for its fake value only.
_SEEN = 24


@dataclass(frozen=True)
class StatefulMethod:
    """Take the inputs of another runtime; exact.

    Attributes:
        names: the runtime's names.
        context: the most positions.
    """

    names: StatefulNames
    context: int
    name: str = "stateful_method"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """The inputs are tokens and positions, and the runtime opens a context of this length."""
        names = [tensor.name for tensor in program.interface.inputs]
        if self.context < self.names.least:
            raise InputError(
                what=f"a context of {self.context} tokens is too short for this layout",
                where="--context",
                why=f"the runtime that reads it opens no model of fewer than {self.names.least} positions",
                fix=f"use --context {self.names.least} or more",
                code="E857",
            )
        if tuple(names) != _BEFORE:
            raise InputError(
                what="this graph cannot be called by another runtime",
                where=self.name,
                why=f"its inputs are {', '.join(names)}, not {', '.join(_BEFORE)}",
                fix="leave --layout out",
                code="E857",
            )

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rename the tokens, and count positions by the second input."""
        tokens, sized = placeholder(graph, "tokens"), placeholder(graph, "positions")
        ids = tokens.meta["val"]
        tokens.target = tokens.name = self.names.tokens
        tokens.meta["val"] = ids.to(torch.int32)
        sized.target = sized.name = self.names.sized
        sized.meta["val"] = _varying(ids.fake_mode, self.names)
        with graph.graph.inserting_after(last_placeholder(graph)):
            positions = Emitter(graph.graph)(CALL_POSITIONS, tokens, sized, self.names.beyond)
        sized.replace_all_uses_with(positions, delete_user_cb=lambda user: user is not positions)
        for view in nodes_of(graph, aten.view.default):
            view.target = aten.reshape.default  # later passes change the order in which values lie in memory
        return self._interface(program.interface)

    def _interface(self, before: Interface) -> Interface:
        size = Dynamic("S", 1, self.context)
        end = Dynamic("E", 1 + self.names.beyond, self.context + self.names.beyond)
        ones = (1,) * (self.names.rank - 1)
        inputs = (
            TensorType(self.names.tokens, torch.int32, (1, size)),
            TensorType(self.names.sized, self.names.dtype, (*ones, end)),
        )
        logits = TensorType(self.names.logits, torch.float32, (1, size, before.outputs[0].shape[-1]))
        return replace(before, inputs=inputs, outputs=(logits,))

    def ensures(self, program: Program) -> None:
        """Positions are counted once."""
        assert len(nodes_of(program.graph, CALL_POSITIONS)) == 1


def _varying(mode: torch._subclasses.fake_tensor.FakeTensorMode, names: StatefulNames) -> torch.Tensor:
    """A fake value of the second input, whose last dimension is a symbol of its own."""
    from torch._dynamo.source import ConstantSource
    from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

    kinds = [DimDynamic.STATIC] * (names.rank - 1) + [DimDynamic.DYNAMIC]
    example = torch.zeros(names.shape(_SEEN), dtype=names.dtype)
    context: Any = StatelessSymbolicContext(dynamic_sizes=kinds, constraint_sizes=[None] * names.rank)
    return mode.from_tensor(example, source=ConstantSource(names.sized), symbolic_context=context)
