"""Execute a graph over several calls at once: each matrix is read and dequantised once for all of them, by rows.

The calls of a probe differ in their tokens only, so the ladder walks the graph a single time and carries all calls
along. Between two matrices each call runs alone and in order, as caches need it. No matrix exists in float32 as a
whole: a linear layer takes it in blocks of rows, a look-up takes the rows it needs, experts are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.nn.functional import linear

from edgec.ir.attributes import attribute
from edgec.ir.experts import EXPERTS, ExpertsCall, chosen_products
from edgec.ir.linear_memo import LinearMemo, LinearWeights
from edgec.ir.program import Program
from edgec.ir.stored_rows import blocks_of, expert_of, expert_sizes, is_stored, reads_experts, rows_of

aten = torch.ops.aten
LINEAR, LOOKUP = aten.linear.default, aten.embedding.default
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
        steps: nodes to run call by call, and the layer after them, if any, to run for all calls at once.
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
    stored = frozenset(node for node in nodes if is_stored(node) and all(_reads_rows(u, node) for u in node.users))
    steps = list(_split([node for node in nodes if node not in stored and node.op != "get_attr"], stored))
    rings = {state.buffer for state in program.interface.states if state.layout != "full"}
    return _Order(steps, stored, _last_reads(nodes), _stay_inside(steps, rings))


def _reads_rows(user: Node, matrix: Node) -> bool:
    """Whether a reader of a matrix can take it by rows."""
    if user.target is LINEAR:
        return user.args[1] is matrix and user.args[0] is not matrix
    return reads_experts(user, matrix) or is_stored(user) or (user.target is LOOKUP and user.args[0] is matrix)


def _split(nodes: Sequence[Node], stored: frozenset[Node]) -> Iterator[GraphStep]:
    """Cut the nodes at each layer over a stored matrix, linear or of experts."""
    places = {LINEAR: 1, EXPERTS: 2}
    cuts = [i for i, node in enumerate(nodes) if node.target in places and node.args[places[node.target]] in stored]
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
        if layer is not None and layer.target is EXPERTS:
            _experts(graph, layer, runs)
        elif layer is not None:
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
        rows = rows_of(self.graph, matrix, ids.reshape(-1))
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


def _experts(graph: GraphModule, node: Node, runs: Sequence[_Run]) -> None:
    """Run a layer of experts for all calls, one chosen matrix after the other."""
    call = ExpertsCall.of(node)
    inputs, choices = ([run.value(source) for run in runs] for source in (call.x, call.index))
    bias = None if call.bias is None else runs[0].value(call.bias)
    matrix_of = partial(expert_of, graph, call.weight)
    result = chosen_products(torch.cat(inputs), torch.cat(choices), expert_sizes(graph, call.weight), matrix_of, bias)
    for run, own in zip(runs, torch.split(result, [len(chosen) for chosen in choices]), strict=True):
        run.values[node] = own
        run.forget(node)


def _product(graph: GraphModule, layer: Node, together: Tensor, run: _Run) -> Tensor:
    """What a linear layer makes of its inputs [P, K], its matrix in blocks of rows: [P, N]."""
    matrix: Any
    _, matrix, *rest = layer.args
    bias = run.value(rest[0]) if rest and rest[0] is not None else None
    blocks = list(blocks_of(graph, matrix))
    # Written in place: results kept between the blocks' working copies would fragment the heap.
    results = together.new_empty(len(together), blocks[-1].stop)
    for block in blocks:
        results[:, block] = linear(together, rows_of(graph, matrix, block), None if bias is None else bias[block])
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
