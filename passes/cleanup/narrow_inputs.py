"""Take inputs of 64-bit integers as 32-bit ones, the widest that Core ML and Core AI accept.

    input_ids int64 [1,S] -> embedding               ==>          input_ids int32 [1,S] -> to(int64) -> embedding

Legality: values are indices or flags below 2^31, as token ids and masks are. Exact. An encoder of text has two or three
such inputs. Measured on a tiny random BERT (2 layers, two inputs of 16 tokens): 256 bytes of inputs a call before, 128
after, for two more nodes (97, then 99).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch.fx import GraphModule

from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import last_placeholder

aten = torch.ops.aten


@dataclass(frozen=True)
class NarrowInputs:
    """Make int64 inputs int32; exact."""

    name: str = "narrow_inputs"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: other inputs stay as they are."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Widen the inputs again inside the graph; converters drop a cast that changes nothing."""
        last = last_placeholder(graph)
        for node in [node for node in graph.graph.nodes if node.op == "placeholder"]:
            if node.meta["val"].dtype is torch.int64:
                with graph.graph.inserting_after(last):
                    wide = graph.graph.call_function(aten.to.dtype, (node, torch.int64))
                wide.meta["val"] = node.meta["val"]
                node.replace_all_uses_with(wide, delete_user_cb=lambda user, keep=wide: user is not keep)
                node.meta["val"] = node.meta["val"].to(torch.int32)
        inputs = program.interface.inputs
        narrow = tuple(replace(i, dtype=torch.int32) if i.dtype is torch.int64 else i for i in inputs)
        return replace(program.interface, inputs=narrow)

    def ensures(self, program: Program) -> None:
        """No input has 64 bits."""
        assert not [tensor for tensor in program.interface.inputs if tensor.dtype is torch.int64]
