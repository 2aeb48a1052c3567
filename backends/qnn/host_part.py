"""The split of a static method between the phone's CPU and its Hexagon processor.

    tokens, start -> embedding -> layers with masks and rotary rows -> logits
    ==>
    tokens, start -> embedding, masks, rotary rows                       host: positions and look-ups, a few operators
    host_0 .. host_n, last, states -> layers -> logits, new states       npu: all matrix products

A look-up of table rows and comparisons of integers have no good form in 16-bit fixed point, take no time, and would
keep a copy of the table inside the context. Legality: what crosses is float. Exact: both parts hold the same operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from edgec.errors import InputError
from edgec.ir.program import Interface, Program, TensorType

aten = torch.ops.aten
_FROM_HOST = "host_"


def split_host(program: Program) -> tuple[Program, Program]:
    """Split a method into the CPU's part, which may be empty, and the Hexagon processor's.

    Raises:
        InputError: E590, an integer crosses.
    """
    static = any(tensor.name == "start" for tensor in program.interface.inputs)
    inside = _of_positions(program) if static else _of_integers(program)
    crossing = [node for node in inside if any(user not in inside for user in node.users)]
    types = [_crossing_type(node, f"{_FROM_HOST}{index}") for index, node in enumerate(crossing)]
    known = {tensor.name: tensor for tensor in program.interface.inputs}
    host = _part(program, inside, {}, crossing)
    outputs = tuple(types)
    host_program = replace(program, graph=host, interface=Interface(_inputs(host, known), outputs, ()))
    result: Any = next(node for node in reversed(program.graph.graph.nodes) if node.op == "output").args[0]
    results = list(result) if isinstance(result, tuple | list) else [result]
    named = {node: tensor.name for node, tensor in zip(crossing, types, strict=True)}
    rest = [node for node in program.graph.graph.nodes if node not in inside]
    npu = _part(program, rest, named, results)
    inputs = _inputs(npu, {**known, **{tensor.name: tensor for tensor in types}})
    return host_program, replace(program, graph=npu, interface=replace(program.interface, inputs=inputs))


def _of_positions(program: Program) -> dict[Node, None]:
    """The CPU's nodes in a decoder's method: what follows from the position alone, and rows of tables."""
    sources: dict[Node, frozenset[str]] = {}
    nodes: dict[Node, None] = {}
    for node in program.graph.graph.nodes:
        of_inputs = (sources[source] for source in node.all_input_nodes)
        own = {str(node.target)} if node.op == "placeholder" else set()
        sources[node] = frozenset(own.union(*of_inputs))
        positions = "start" in sources[node] and sources[node] <= {"start", "last"}
        looked_up = sources[node] == {"tokens"} and (node.target is aten.embedding.default or _is_integer(node))
        if node.op == "call_function" and (positions or looked_up):
            nodes[node] = None
    return nodes


def _is_integer(node: Node) -> bool:
    """Whether a value is of integers, such as tokens in another shape."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not value.is_floating_point()


def _of_integers(program: Program) -> dict[Node, None]:
    """The CPU's nodes in any other model: what follows from integer inputs, such as masks, up to the rows of tables."""
    open_ends: set[Node] = set()
    nodes: dict[Node, None] = {}
    for node in program.graph.graph.nodes:
        sources = [source for source in node.all_input_nodes if source.op != "get_attr" and not _constant(source)]
        if node.op == "placeholder" and not node.meta["val"].is_floating_point():
            open_ends.add(node)
        elif node.op == "call_function" and sources and open_ends.issuperset(sources):
            nodes[node] = None
            if node.target is not aten.embedding.default:
                open_ends.add(node)
    return nodes


def _crossing_type(node: Node, name: str) -> TensorType:
    value = node.meta["val"]
    if value.is_floating_point():
        return TensorType(name, value.dtype, tuple(int(size) for size in value.shape))
    raise InputError(
        what="this model cannot be divided between CPU and Hexagon processor",
        where=node.name,
        why="a layer reads an integer that is computed from positions",
        fix="export for the CPU (--target android-cpu), or report the model",
        code="E590",
    )


def _part(program: Program, wanted: Iterable[Node], given: Mapping[Node, str], results: Sequence[Node]) -> GraphModule:
    """A graph of some nodes, with all constants and inputs that they read."""
    needed = _with_sources(results, given)
    keep = needed & {*wanted, *(node for node in needed if node.op in ("placeholder", "get_attr") or _constant(node))}
    graph, made = Graph(), dict[Node, Node]()
    for node, name in given.items():
        if node in needed:
            made[node] = graph.placeholder(name)
            made[node].meta = dict(node.meta)
    for op in ("placeholder", None):
        for node in program.graph.graph.nodes:
            if node in keep and node not in made and (op is None or node.op == op) and node.op != "output":
                made[node] = graph.node_copy(node, lambda source: made[source])
    graph.output(tuple(made[node] for node in results))
    return GraphModule(program.graph, graph)


def _with_sources(results: Sequence[Node], given: Mapping[Node, str]) -> set[Node]:
    reached, waiting = set(results), list(results)
    while waiting:
        node = waiting.pop()
        for source in () if node in given else node.all_input_nodes:
            if source not in reached:
                reached.add(source)
                waiting.append(source)
    return reached


def _constant(node: Node) -> bool:
    """Whether a value is computed from constants alone, such as a dequantised weight."""
    return node.op == "call_function" and all(s.op == "get_attr" or _constant(s) for s in node.all_input_nodes)


def _inputs(graph: GraphModule, known: Mapping[str, TensorType]) -> tuple[TensorType, ...]:
    return tuple(known[str(node.target)] for node in graph.graph.nodes if node.op == "placeholder")
