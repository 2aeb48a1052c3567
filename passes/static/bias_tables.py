"""Look biases by relative position up in a table of positions and slots, computed once at export.

    positions -> column - (0 .. slots - 1) -> buckets by logarithm -> embedding(W) -> bias [1,H,S,slots]
    ==>
    table [slots, H * slots] (constant) -> index_select(positions) -> [1,S,H,slots] -> bias [1,H,S,slots]

A bucket is a logarithm's integer part, which float16 rounds to another bucket at its edges, and layers share a bias.
Legality: the bias of ``edgec::biased_attention``, which depends on positions and weights alone (``slot_bias.py``).
Exact. Measured on a tiny random T5 (4 heads, 64 slots): a table of 32 KB in float16.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.encoder_operators import BIASED_ATTENTION
from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter, shared_constant
from edgec.passes.static.parts.position_values import computed

aten = torch.ops.aten
_POSITIONS, _BIAS = 1, 6


@dataclass(frozen=True)
class BiasTables:
    """Replace computed biases by rows of constant tables; exact.

    Attributes:
        slots: number of positions; 0 .. slots - 1 occur.
    """

    slots: int
    name: str = "bias_tables"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: biases of attention over a cache follow from positions."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace each bias once for all layers that read it."""
        looked_up: dict[Node, Node] = {}
        for node in nodes_of(graph, BIASED_ATTENTION):
            bias = node.args[_BIAS]
            assert isinstance(bias, Node)
            if bias not in looked_up:
                with graph.graph.inserting_before(node):
                    looked_up[bias] = self._look_up(graph, Emitter(graph.graph), node, len(looked_up))
            node.update_arg(_BIAS, looked_up[bias])
        return program.interface

    def _look_up(self, graph: GraphModule, emit: Emitter, node: Node, number: int) -> Node:
        positions, bias = node.args[_POSITIONS], node.args[_BIAS]
        assert isinstance(positions, Node) and isinstance(bias, Node)
        _, heads, rows, columns = (int(size) for size in bias.meta["val"].shape)
        table = bias_rows(graph, bias, positions, self.slots)
        held = shared_constant(graph, emit, f"bias_table_{number}", table.reshape(self.slots, -1), bias)
        found = emit(aten.index_select.default, held, 0, positions)
        by_row = emit(aten.reshape.default, found, [1, rows, heads, columns])
        return emit(aten.permute.default, by_row, [0, 2, 1, 3])

    def ensures(self, program: Program) -> None:
        """Every bias is looked up."""
        biases = [node.args[_BIAS] for node in nodes_of(program.graph, BIASED_ATTENTION)]
        assert all(isinstance(bias, Node) and bias.target is aten.permute.default for bias in biases)


def bias_rows(graph: GraphModule, bias: Node, positions: Node, count: int) -> Tensor:
    """A bias [1, H, S, slots] for the positions 0 .. count - 1, float32 [count, H, slots]."""
    size = positions.meta["val"].numel()
    order = torch.arange(-(-count // size) * size, dtype=torch.int32)
    parts = [computed(graph, bias, {positions: part}) for part in order.split(size)]
    return torch.cat(parts, 2)[0].transpose(0, 1)[:count].contiguous()
