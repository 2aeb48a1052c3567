"""Compute only the rows whose logits are wanted, as far up as no later token needs the others.

    hidden [1,S,H] -> q -> attention -> o -> + -> MLP -> norm -> index_select(logit_index) -> lm_head
              |-----> k, v -> cache_write
    ==>
    hidden [1,S,H] -> index_select -> q -> attention -> o -> + -> MLP -> norm -> lm_head      K rows
              |-----> k, v -> cache_write                                                               S rows

Only keys and values of a token reach later tokens. After the last layer that writes them, and in that layer except for
k and v, a row serves only its own logits, and prefill needs those of one row. Without shared KV that is most of one
layer; with ``shared_kv`` at 5/8, 3/8 of the layers more. Counted on 8 layers of Qwen3-0.6B, prefill 512 in
one call: 73.2 G multiply-accumulates -> 65.1 G; with ``shared_kv`` 37.8 G. It costs five small selections a call.

Legality: every operator between the old and the new place of the selection works row by row (``row_rules.py``), so
that selecting before or after it is the same; exact. Attention qualifies as ``edgec::cached_attention``, whose
query rows name their positions; ExecuTorch's own kernels take consecutive rows, and the selection stays after them. A
value that others read for all tokens is selected where it crosses over. Activations on an integer grid are computed
again for the selected rows, because matrix kernels need the grid's operators right in front of them. Where a computed
value is written into (``functional.py`` leaves few cases), nothing moves.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from edgec.errors import InputError
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import CHOOSE, DEQUANTIZE, QUANTIZE
from edgec.passes.contract import last_placeholder, nodes_of, placeholder
from edgec.passes.graph.functional import make_functional, writes
from edgec.passes.prefill.rows.row_rules import WHOLE, RowShapes, rows_read
from edgec.passes.prefill.rows.row_shapes import row_shapes

aten = torch.ops.aten
_GRID = frozenset({CHOOSE, QUANTIZE, DEQUANTIZE, operator.getitem})


@dataclass(frozen=True)
class PrefillSkip:
    """Move the selection of rows as early in the graph as is legal; exact."""

    name: str = "prefill_skip"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """The graph selects rows: ``last_logits`` has run."""
        if not _selections(program.graph):
            raise InputError(
                what="prefill_skip finds no selection of rows to hoist",
                where=self.name,
                why="the graph computes logits for all positions",
                fix="let last_logits run before it",
                code="E189",
            )

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Compute for the selected rows only whatever works row by row."""
        make_functional(graph)
        graph.graph.eliminate_dead_code()
        if writes(graph):
            return program.interface
        starts = _selections(graph)
        region = find_region(graph, starts, row_shapes(graph, program.interface))
        if region.inside:
            _rewrite(graph, region, starts)
        return program.interface

    def ensures(self, program: Program) -> None:
        """Rows are still selected."""
        assert _selections(program.graph)


@dataclass(frozen=True)
class SkippedRegion:
    """The part of a graph that is computed for the selected rows only.

    Attributes:
        inside: nodes to compute for these rows.
        border: values that are selected, with their row dimensions.
        counts: nodes whose value is the number of rows.
    """

    inside: Collection[Node]
    border: Mapping[Node, int | None]
    counts: Collection[Node]


def _selections(graph: GraphModule) -> list[Node]:
    """The nodes that select rows by ``logit_index``."""
    selects = nodes_of(graph, aten.index_select.default)
    return [n for n in selects if isinstance(n.args[2], Node) and n.args[2].target == "logit_index"]


def find_region(graph: GraphModule, starts: Collection[Node], shapes: RowShapes) -> SkippedRegion:
    """Walk up from the selections: a node is inside when it works by rows and nothing else reads it.

    Args:
        graph: not changed.
        starts: ``index_select`` nodes by ``logit_index``.
        shapes: the rows of every value.
    """
    wanted: set[Any] = {start.args[0] for start in starts}
    inside: set[Node] = set()
    twice: set[Node] = set()
    for node in reversed(graph.graph.nodes):
        reads = rows_read(node, shapes) if node in wanted else None
        if reads is None:
            continue
        if any(_reads_whole(user, node, starts, inside, twice) for user in node.users):
            if node.target not in _GRID:
                continue
            twice.add(node)
        inside.add(node)
        wanted.update(reads)
    # Parts of a split are selected one by one: a list of them cannot be.
    parts = {node for node in inside if node.target is operator.getitem}
    inside -= {node for node in parts if not inside.issuperset(node.all_input_nodes)}
    wanted = {n for n in wanted if n in inside or any(u in inside or u in starts for u in n.users)}
    border = {node: shapes[node].dim for node in graph.graph.nodes if node in wanted and node not in inside}
    return SkippedRegion(inside, border, {node for node, rows in shapes.items() if rows.count})


def _reads_whole(user: Node, node: Node, starts: Collection[Node], inside: set[Node], twice: set[Node]) -> bool:
    """Whether a reader needs all rows of a node."""
    if user in starts:
        return False
    whole_operands = {argument for argument, whole in _operands(user) if whole and isinstance(argument, Node)}
    return user not in inside or user in twice or node in whole_operands


def _operands(node: Node) -> list[tuple[Any, bool]]:
    """A node's positional arguments, and whether each is read with all its rows."""
    kept = WHOLE.get(node.target)
    if kept is None:
        return [(argument, False) for argument in node.args]
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    return [(argument, name in kept) for argument, name in zip(node.args, names, strict=False)]


def _rewrite(graph: GraphModule, region: SkippedRegion, starts: Collection[Node]) -> None:
    """Copy the region for the selected rows; ``clean`` drops what is no longer read."""
    rows = _Rows(graph, region.counts)
    for node in list(graph.graph.nodes):
        if node in region.border:
            rows.select(node, region.border[node])
        elif node in region.inside:
            rows.copy(node)
    for start in starts:
        start.replace_all_uses_with(rows.selected[start.args[0]])  # type: ignore[index]


class _Rows:
    """The values for the selected rows, each placed after the one for all rows."""

    def __init__(self, graph: GraphModule, counts: Collection[Node]) -> None:
        self.graph = graph.graph
        self.index = placeholder(graph, "logit_index")
        self.last_input = last_placeholder(graph)
        with self.graph.inserting_after(self.last_input):
            count = self.graph.call_function(aten.sym_size.int, (self.index, 0))
        self.selected = dict.fromkeys(counts, count)

    def select(self, node: Node, dim: int | None) -> None:
        """Select rows of a value that is computed for all tokens."""
        with self.graph.inserting_after(self.last_input if node.op == "placeholder" else node):
            rows = self.graph.call_function(aten.index_select.default, (node, dim, self.index))
        rows.meta = dict(node.meta)
        self.selected[node] = rows

    def copy(self, node: Node) -> None:
        """Apply a node's operator to the selected rows of its operands."""
        args = tuple(a if whole else map_arg(a, self._operand) for a, whole in _operands(node))
        kwargs: Any = map_arg(node.kwargs, self._operand)
        with self.graph.inserting_after(node):
            copied = self.graph.create_node(node.op, node.target, args, kwargs)
        copied.meta = dict(node.meta)
        self.selected[node] = copied

    def _operand(self, node: Node) -> Node:
        return self.selected.get(node, node)
