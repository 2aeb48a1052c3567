"""Look sines and cosines of positions of three parts up in tables: float16 cannot hold the angles of later positions.

    mrope_positions [3,S] -> to(float) * inverse_frequency -> cos, sin -> a part for each column -> [.,S,D]
    ==>
    table [slots,D], once for all parts ; mrope_positions[part] -> index_select(table) -> * columns of the part -> sum

Each column of a row follows one of the three parts (time, height, width), which is found by moving one part alone; at
equal parts all columns are those of a text's positions. Legality: the value depends on mrope_positions and constants
only, holds a sine or cosine, has a row for each token, and is what the table gives at positions drawn at random. Exact:
a product with 1 or 0. Measured on a tiny random Qwen2-VL (2 layers, 192 slots): two tables of 3 KB in float16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.program import Effect, Interface, Program
from edgec.ir.row_inputs import MROPE
from edgec.passes.contract import placeholder
from edgec.passes.graph.emit import Emitter
from edgec.passes.static.parts.position_values import computed, frontier, positional

aten = torch.ops.aten
_PARTS = 3
# Positions at which a column is seen to move with a part; the last ones tell slow frequencies.
_PROBED = 32


@dataclass(frozen=True)
class MropeTables:
    """Replace sines and cosines of positions of three parts by tables; exact.

    Attributes:
        slots: number of positions; no part is larger than the last.
    """

    slots: int
    name: str = "mrope_tables"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: a value that does not fit stays in the graph, and the ladder measures it."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace the last values that depend on such positions alone."""
        if MROPE not in {tensor.name for tensor in program.interface.inputs}:
            return program.interface
        positions = placeholder(graph, MROPE)
        tables = _Tables(graph, positions)
        for node in frontier(graph, positional(graph, positions)):
            found = _found(graph, node, positions, self.slots)
            if found is not None:
                tables.look_up(node, *found)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No guarantee: other values of positions are legal."""


def _found(graph: GraphModule, node: Node, positions: Node, slots: int) -> tuple[Tensor, Tensor] | None:
    """A value's table [slots, D], and which part each column follows, bool [3, D]; None where it has no table."""
    tokens, width = int(positions.meta["val"].shape[1]), int(node.meta["val"].shape[-1])
    if node.meta["val"].numel() != tokens * width:
        return None
    every = torch.arange(slots, dtype=torch.int32)
    table = _rows(graph, node, positions, every.expand(_PARTS, -1))
    follows = _follows(graph, node, positions, every)
    drawn = torch.randint(slots, (_PARTS, _PROBED), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    wanted = _rows(graph, node, positions, drawn)
    made = sum(table[drawn[part]] * follows[part] for part in range(_PARTS))
    assert isinstance(made, Tensor)
    return (table, follows) if torch.allclose(made, wanted, atol=1e-5) else None


def _follows(graph: GraphModule, node: Node, positions: Node, every: Tensor) -> Tensor:
    """Which part each column follows, bool [3, D]; the first where it moves with none."""
    probed = every[torch.linspace(0, len(every) - 1, min(_PROBED, len(every))).long()]
    still = _rows(graph, node, positions, torch.zeros(_PARTS, len(probed), dtype=torch.int32))
    moved = []
    for part in range(1, _PARTS):
        places = torch.zeros(_PARTS, len(probed), dtype=torch.int32)
        places[part] = probed
        moved.append((_rows(graph, node, positions, places) != still).any(0))
    return torch.stack([~torch.stack(moved).any(0), *moved])


def _rows(graph: GraphModule, node: Node, positions: Node, places: Tensor) -> Tensor:
    """The value at ``places`` [3, P], chunk by chunk, as its shapes are fixed: [P, D]."""
    tokens, count = int(positions.meta["val"].shape[1]), places.shape[1]
    padded = torch.cat([places, places[:, :1].expand(-1, -count % tokens)], 1)
    parts = [computed(graph, node, {positions: part}) for part in padded.split(tokens, 1)]
    return torch.cat([part.reshape(-1, part.shape[-1]) for part in parts])[:count]


@dataclass
class _Tables:
    """The tables of a graph; layers that rotate by the same angles share a table and its rows."""

    graph: GraphModule
    positions: Node
    rows: list[tuple[Tensor, Tensor, Node]] = field(default_factory=list)

    def look_up(self, node: Node, table: Tensor, follows: Tensor) -> None:
        """Replace a value by rows of its table."""
        shape = [int(size) for size in node.meta["val"].shape]
        with self.graph.graph.inserting_before(node):
            emit = Emitter(self.graph.graph)
            rows = self._known(table, follows)
            if rows is None:
                rows = self._placed(emit, node, table, follows)
                self.rows.append((table, follows, rows))
            node.replace_all_uses_with(emit(aten.reshape.default, rows, shape))

    def _known(self, table: Tensor, follows: Tensor) -> Node | None:
        return next(
            (n for held, parts, n in self.rows if torch.equal(held, table) and torch.equal(parts, follows)), None
        )

    def _placed(self, emit: Emitter, node: Node, table: Tensor, follows: Tensor) -> Node:
        """Rows [S, D], whose columns are taken by the part that they follow."""
        number = len(self.rows)
        held = self._held(node, f"mrope_table_{number}", table)
        taken: list[Node] = []
        for part in (part for part in range(_PARTS) if follows[part].any()):
            places = emit(aten.select.int, self.positions, 0, part)
            rows = emit(aten.index_select.default, held, 0, places)
            columns = self._held(node, f"mrope_columns_{number}_{part}", follows[part].to(table.dtype))
            taken.append(emit(aten.mul.Tensor, rows, columns))
        return _summed(emit, taken)

    def _held(self, node: Node, name: str, value: Tensor) -> Node:
        self.graph.register_buffer(name, value)
        held = self.graph.graph.get_attr(name)
        held.meta["val"] = node.meta["val"].fake_mode.from_tensor(value, static_shapes=True)
        return held


def _summed(emit: Emitter, values: Sequence[Node]) -> Node:
    total, *others = values
    for other in others:
        total = emit(aten.add.Tensor, total, other)
    return total
