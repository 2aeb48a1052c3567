"""Execute a graph over several calls at once: each matrix is read and dequantised once for all of them, by rows.

The calls of a probe differ in their tokens only, so the ladder walks the graph a single time and carries all calls
along. Between two matrices each call runs alone and in order, as caches need it. No matrix exists in float32 as a
whole: a linear layer takes it in blocks of rows, a look-up takes the rows it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.nn.functional import linear

from edgec.ir.attributes import attribute
from edgec.ir.linear_memo import LinearMemo, LinearWeights
from edgec.ir.lut_form import is_lut, lut_rows
from edgec.ir.program import Program
from edgec.ir.quantized_form import DEQUANTIZE

aten = torch.ops.aten
LINEAR, LOOKUP = aten.linear.default, aten.embedding.default
_BLOCK_VALUES = 1 << 22
Inputs = Sequence[Tensor]
GraphStep = tuple[Sequence[Node], Node | None]
Visit = Callable[[Node, Tensor], None]


def run_calls(program: Program, calls: Sequence[Inputs], memo: LinearMemo | None = None) -> list[Any]:
    """What ``program.graph(*inputs)`` returns for each call, one after the other on the same states.

    Args:
        program: a graph of ATen operators.
        calls: the inputs of each call, in the interface's order.
        memo: what linear layers computed in the last run; None: every layer is computed.
    """
    order = _order(program)
    if not order.may_overlap:
        return [output for call in calls for output in _walk(program.graph, order, [call])]
    with memo.run() if memo is not None else nullcontext():
        return _walk(program.graph, order, calls, memo=memo)


def first_output(output: Any) -> Tensor:
    """The first tensor of what a graph returns, whether it returns one or several."""
    result: Tensor = output[0] if isinstance(output, (tuple, list)) else output
    return result


def visit_layers(program: Program, calls: Sequence[Inputs], visit: Visit) -> bool:
    """Show every linear layer the inputs that all calls bring it, in order; what it computes comes after the visit.

    Args:
        program: a graph of ATen operators; states change as calls change them.
        calls: the inputs of each call, in the interface's order.
        visit: given the layer and its inputs, float32 [rows, K]; may put another matrix into the layer's place.

    Returns:
        False, without any visit, where calls cannot go through the graph together: a ring is read in several steps.
    """
    order = _order(program)
    if order.may_overlap:
        with torch.no_grad():
            _walk(program.graph, order, calls, visit)
    return order.may_overlap


@dataclass(frozen=True)
class _Order:
    """The order in which a graph runs, and what it may free.

    Attributes:
        steps: nodes to run call by call, and the linear layer after them, if any, to run for all calls at once.
        stored: matrices of which only rows are read, so that they are never computed as a whole.
        last_reads: node -> the values that nothing reads after it.
        may_overlap: a later call may run a step before an earlier one runs the next.
    """

    steps: Sequence[GraphStep]
    stored: frozenset[Node]
    last_reads: Mapping[Node, Sequence[Node]]
    may_overlap: bool


def _order(program: Program) -> _Order:
    nodes = list(program.graph.graph.nodes)
    stored = frozenset(node for node in nodes if _is_stored(node) and all(_reads_rows(u, node) for u in node.users))
    steps = list(_split([node for node in nodes if node not in stored and node.op != "get_attr"], stored))
    rings = {state.buffer for state in program.interface.states if state.layout != "full"}
    return _Order(steps, stored, _last_reads(nodes), _stay_inside(steps, rings))


def _is_stored(node: Node) -> bool:
    """Whether a node is a matrix as a checkpoint or a quantising pass stores it, perhaps after a cast."""
    if node.op == "get_attr":
        return True
    if is_lut(node):
        return all(source.op == "get_attr" for source in node.all_input_nodes)
    if node.target not in (aten.to.dtype, DEQUANTIZE) or any(n.op != "get_attr" for n in node.all_input_nodes):
        return False
    block: Any = node.args[1]
    return node.target is aten.to.dtype or (len(block) == 2 and block[0] == 1)


def _reads_rows(user: Node, matrix: Node) -> bool:
    """Whether a reader of a matrix can take it by rows."""
    if user.target is LINEAR:
        return user.args[1] is matrix and user.args[0] is not matrix
    return _is_stored(user) or (user.target is LOOKUP and user.args[0] is matrix)


def _split(nodes: Sequence[Node], stored: frozenset[Node]) -> Iterator[GraphStep]:
    """Cut the nodes at each linear layer over a stored matrix."""
    cuts = [i for i, node in enumerate(nodes) if node.target is LINEAR and node.args[1] in stored]
    for before, cut in pairwise([-1, *cuts]):
        yield nodes[before + 1 : cut], nodes[cut]
    yield nodes[cuts[-1] + 1 if cuts else 0 :], None


def _last_reads(nodes: Sequence[Node]) -> Mapping[Node, Sequence[Node]]:
    """For each node, the values that nothing reads after it."""
    last_reader = {source: node for node in nodes for source in node.all_input_nodes}
    last_reads: dict[Node, list[Node]] = {}
    for source, reader in last_reader.items():
        last_reads.setdefault(reader, []).append(source)
    return last_reads


def _stay_inside(steps: Sequence[GraphStep], rings: set[str]) -> bool:
    """Whether each ring or recurrent state lives within one step: a later call takes tokens from it, or adds its own.

    Full caches need no such care: a query sees no position after its own.
    """
    places: dict[object, set[int]] = {}
    for index, (step, _) in enumerate(steps):
        for source in (source for node in step for source in node.all_input_nodes):
            if source.op == "get_attr" and source.target in rings:
                places.setdefault(source.target, set()).add(index)
    return all(len(steps_with_ring) == 1 for steps_with_ring in places.values())


def _walk(
    graph: GraphModule,
    order: _Order,
    calls: Sequence[Inputs],
    visit: Visit | None = None,
    memo: LinearMemo | None = None,
) -> list[Any]:
    runs = [_Run(graph, order, iter(call)) for call in calls]
    for step, layer in order.steps:
        for run in runs:
            for node in step:
                run.execute(node)
        if layer is not None:
            _linear(graph, layer, runs, visit, memo)
    return [run.output for run in runs]


@dataclass
class _Run:
    """One call on its way through the graph."""

    graph: GraphModule
    order: _Order
    inputs: Iterator[Tensor]
    values: dict[Node, Any] = field(default_factory=dict)
    output: Any = None

    def execute(self, node: Node) -> None:
        """Compute a node and free the values that it was the last to read."""
        if node.op == "placeholder":
            self.values[node] = next(self.inputs)
        elif node.op == "output":
            self.output = map_arg(node.args[0], self.value)
        elif node.target is LOOKUP and node.args[0] in self.order.stored:
            self.values[node] = self._looked_up(node)
        else:
            function: Any = node.target
            self.values[node] = function(*map_arg(node.args, self.value), **map_arg(node.kwargs, self.value))
        self.forget(node)

    def value(self, node: Any) -> Any:
        """The value of a node: computed by this call, or one of the graph's tensors."""
        return attribute(self.graph, str(node.target)) if node.op == "get_attr" else self.values[node]

    def forget(self, node: Node) -> None:
        """Free the values that nothing reads after a node."""
        for source in self.order.last_reads.get(node, ()):
            self.values.pop(source, None)

    def _looked_up(self, node: Node) -> Tensor:
        matrix: Any = node.args[0]
        ids: Tensor = self.value(node.args[1])
        rows = _rows(self.graph, matrix, ids.reshape(-1))
        return rows.view(*ids.shape, rows.shape[-1])


def _linear(graph: GraphModule, node: Node, runs: Sequence[_Run], visit: Visit | None, memo: LinearMemo | None) -> None:
    """Run a linear layer for all calls."""
    inputs: list[Tensor] = [run.value(node.args[0]) for run in runs]
    together = torch.cat([value.reshape(-1, value.shape[-1]) for value in inputs])
    if visit is not None:
        visit(node, together)
    if memo is None:
        results = _product(graph, node, together, runs[0])
    else:
        results = memo.result(_weights_of(graph, node), together, lambda: _product(graph, node, together, runs[0]))
    split = torch.split(results, [value.numel() // value.shape[-1] for value in inputs])
    for run, value, result in zip(runs, inputs, split, strict=True):
        run.values[node] = result.view(*value.shape[:-1], result.shape[-1])
        run.forget(node)


def _product(graph: GraphModule, layer: Node, together: Tensor, run: _Run) -> Tensor:
    """What a linear layer makes of its inputs [P, K], its matrix in blocks of rows: [P, N]."""
    _, matrix, *rest = layer.args
    bias = run.value(rest[0]) if rest and rest[0] is not None else None
    blocks = list(_blocks(graph, matrix))
    # Written in place: results kept between the blocks' working copies would fragment the heap.
    results = together.new_empty(len(together), blocks[-1].stop)
    for block in blocks:
        results[:, block] = linear(together, _rows(graph, matrix, block), None if bias is None else bias[block])
    return results


def _weights_of(graph: GraphModule, layer: Node) -> LinearWeights:
    """How a layer's weight and bias are computed, and from which tensors of the graph."""
    read: list[Tensor] = []
    forms = [_form(graph, node, read) for node in layer.all_input_nodes[1:]]
    return LinearWeights(tuple(forms), tuple(read))


def _form(graph: GraphModule, node: Node, read: list[Tensor]) -> str:
    """How a value is computed; ``read`` takes the tensors that it is computed from.

    Not a function inside another that calls itself: such a cycle would hold the tensors until it is collected.
    """
    if node.op == "get_attr":
        read.append(attribute(graph, str(node.target)))
        return f"#{len(read)}"
    if node.target is aten.to.dtype and node.args[1:] == (torch.float32,):
        return _form(graph, node.all_input_nodes[0], read)
    return f"{node.target}{map_arg((node.args, node.kwargs), lambda source: _form(graph, source, read))}"


def _blocks(graph: GraphModule, matrix: Any) -> Iterator[slice]:
    leaf = matrix if matrix.op == "get_attr" else matrix.all_input_nodes[0]
    rows, width = attribute(graph, str(leaf.target)).shape
    step = max(1, _BLOCK_VALUES // width)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _rows(graph: GraphModule, matrix: Any, rows: slice | Tensor) -> Tensor:
    """Rows of a stored matrix as the graph reads them, [n, K]."""
    if matrix.op == "get_attr":
        held: Tensor = attribute(graph, str(matrix.target))
        return held[rows]
    if is_lut(matrix):
        return _table_rows(graph, matrix, rows)
    if matrix.target is DEQUANTIZE:
        return _dequantized_rows(graph, matrix, rows)
    dense: Tensor = matrix.target(*map_arg(matrix.args, lambda source: _rows(graph, source, rows)), **matrix.kwargs)
    return dense


def _dequantized_rows(graph: GraphModule, matrix: Node, rows: slice | Tensor) -> Tensor:
    """Rows of integers as ``dequantize_affine`` reads them, without its copies: (integer - zero point) * scale."""
    integers, scale, zero = (attribute(graph, str(matrix.args[i].target))[rows] for i in (0, 2, 3))  # type: ignore[union-attr]
    groups = integers.float().view(*scale.shape, -1)
    if zero.any():
        groups.sub_(zero.unsqueeze(-1))
    return groups.mul_(scale.unsqueeze(-1)).view(integers.shape)


def _table_rows(graph: GraphModule, matrix: Node, rows: slice | Tensor) -> Tensor:
    """Rows of a matrix whose groups of rows share look-up tables."""
    operands: Any = map_arg(matrix.args, lambda source: attribute(graph, str(source.target)))
    indices, table, scale, group_rows = operands
    wanted = torch.arange(len(indices))[rows] if isinstance(rows, slice) else rows
    return lut_rows(indices, table, scale, group_rows, wanted)
