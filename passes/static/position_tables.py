"""Compute rotary tables, and scales that depend on the position, once at export, and read them by position.

    positions -> * inv_freq -> cat -> cos           [1,S,R]   computed on every call, in float16: wrong from 2048 on
    ==>
    table [slots,R] (constant) -> index_select(positions) -> [1,S,R]

A position times a frequency has no exact float16 form beyond 2048, so the angles must not be computed on the device.
Legality: the value depends on positions and constants only, holds a sine, cosine or logarithm, and a row depends on its
own position alone, which is checked by computing it for the positions in another order. Exact. Measured on
examples/tiny-stories (8 layers, 512 slots): two tables of 32 KB in float16, and 374 operators where there were 393.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.program import Effect, Interface, Program
from edgec.ir.stateful_call import CALL_POSITIONS
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter
from edgec.passes.static.parts.position_values import computed, frontier, positional

aten = torch.ops.aten


@dataclass(frozen=True)
class PositionTables:
    """Replace sines, cosines and logarithms by constant tables; exact.

    Attributes:
        slots: number of positions; 0 .. slots - 1 occur.
    """

    slots: int
    name: str = "position_tables"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: a value that does not fit stays in the graph."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace the last values that depend on positions alone."""
        for positions in _positions(graph):
            tables = _Tables(graph, positions)
            for node in frontier(graph, positional(graph, positions)):
                table = _table(graph, node, positions, self.slots)
                if table is not None:
                    tables.look_up(node, table)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No guarantee: angles that depend on the sequence's length are legal."""


def _positions(graph: GraphModule) -> list[Node]:
    """The positions of a call's tokens, as ``static_method`` or ``stateful_method`` counts them, and of kept rows.

    ``prefill_skip`` keeps rows.
    """
    offsets = [n for n in graph.graph.nodes if n.op == "get_attr" and n.target == "chunk_offsets"]
    every: Node = next(iter(offsets[0].users)) if offsets else nodes_of(graph, CALL_POSITIONS)[0]
    shaped = [every, *(user for user in every.users if user.target is aten.unsqueeze.default)]
    return [every, *(user for node in shaped for user in node.users if user.target is aten.index_select.default)]


def _table(graph: GraphModule, node: Node, positions: Node, slots: int) -> Tensor | None:
    """The value's rows for all positions, [slots, R]; None where a row depends on more than its own position."""
    order = torch.arange(slots, dtype=torch.int32)
    chunk = positions.meta["val"].numel()
    if list(node.meta["val"].shape[:-1]) not in ([1, chunk], [1, 1, chunk], [1, chunk, 1]):
        return None
    rows, reverse = (_rows(graph, node, positions, at, chunk) for at in (order, order.flip(0)))
    return rows if torch.allclose(rows, reverse.flip(0), atol=1e-5) else None


def _rows(graph: GraphModule, node: Node, positions: Node, order: Tensor, chunk: int | torch.SymInt) -> Tensor:
    """The value computed for ``order``; where its shapes are fixed, chunk by chunk."""
    if not isinstance(chunk, int):
        return computed(graph, node, {positions: order}).reshape(len(order), -1)
    padded = torch.cat([order, order[:1].expand(-len(order) % chunk)])
    shape = positions.meta["val"].shape
    parts = [computed(graph, node, {positions: part.reshape(shape)}) for part in padded.split(chunk)]
    return torch.cat([part.reshape(-1, part.shape[-1]) for part in parts])[: len(order)]


@dataclass
class _Tables:
    """The tables of a graph; layers that rotate by the same angles share a table and its rows."""

    graph: GraphModule
    positions: Node
    rows: list[tuple[Tensor, Node]] = field(default_factory=list)
    shaped: dict[tuple[Node, tuple[int, ...]], Node] = field(default_factory=dict)

    def look_up(self, node: Node, table: Tensor) -> None:
        """Replace a value by rows of its table; they are read where the first value needs them, for all of them."""
        shape = tuple(size if isinstance(size, int) else -1 for size in node.meta["val"].shape)
        with self.graph.graph.inserting_before(node):
            emit = Emitter(self.graph.graph)
            rows = next((rows for held, rows in self.rows if torch.equal(held, table)), None)
            rows = self._place(emit, table, node) if rows is None else rows
            if (rows, shape) not in self.shaped:
                self.shaped[rows, shape] = emit(aten.reshape.default, rows, list(shape))
        node.replace_all_uses_with(self.shaped[rows, shape])

    def _place(self, emit: Emitter, table: Tensor, node: Node) -> Node:
        name = f"position_table_{sum(name.startswith('position_table_') for name, _ in self.graph.named_buffers())}"
        self.graph.register_buffer(name, table)
        held = self.graph.graph.get_attr(name)
        held.meta["val"] = node.meta["val"].fake_mode.from_tensor(table, static_shapes=True)
        flat = self.positions.meta["val"].dim() == 1
        places = self.positions if flat else emit(aten.reshape.default, self.positions, [-1])
        rows = emit(aten.index_select.default, held, 0, places)
        self.rows.append((table, rows))
        return rows
