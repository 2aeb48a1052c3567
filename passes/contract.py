"""What a pass is: ``requires -> apply -> ensures``, with a declared effect, recorded as a Change."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol, runtime_checkable

from torch.fx import Graph, GraphModule, Node

from edgec.ir.attributes import remove
from edgec.ir.node_layers import followed_layers
from edgec.ir.program import Change, Effect, Interface, Program, held_bytes
from edgec.ir.spec import ModelSpec


class Pass(Protocol):
    """A graph rewrite. Implementations are frozen dataclasses whose fields are the options."""

    @property
    def name(self) -> str:
        """The name in recipes, manifests and reports."""
        ...

    @property
    def effect(self) -> Effect:
        """What the pass claims about numbers."""
        ...

    def requires(self, program: Program) -> None:
        """Raise InputError when the pass is not legal on this program."""
        ...

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rewrite ``graph`` (a private copy) in place and return the new interface."""
        ...

    def ensures(self, program: Program) -> None:
        """Assert the pass's post-condition on the result."""
        ...


@runtime_checkable
class Reshapes(Protocol):
    """The additional methods of a pass that changes the model's shape, and whose effect depends on that shape."""

    def effect_on(self, program: Program) -> Effect:
        """What the pass claims about numbers on this program."""
        ...

    def spec_after(self, program: Program) -> ModelSpec | None:
        """The spec of the program after this pass."""
        ...


@runtime_checkable
class Selective(Protocol):
    """The additional method of a pass that most programs give nothing to do: it is left out there, with its rung."""

    def concerns(self, program: Program) -> bool:
        """Whether the program has what the pass rewrites."""
        ...


def concerned(passes: Iterable[Pass], program: Program) -> list[Pass]:
    """The passes that a program gives something to do, as far as they say so."""
    return [each for each in passes if not isinstance(each, Selective) or each.concerns(program)]


def effect_on(rewrite: Pass, program: Program) -> Effect:
    """What any pass claims about numbers on this program."""
    return rewrite.effect_on(program) if isinstance(rewrite, Reshapes) else rewrite.effect


def run_pass(program: Program, rewrite: Pass, *, in_place: bool = False) -> Program:
    """Apply one pass to a copy of the program's graph; tensors are shared, not copied.

    Args:
        program: what to rewrite.
        rewrite: the pass.
        in_place: rewrite the program's own graph, which the caller gives up: replaced tensors are freed at once.

    Raises:
        InputError: the pass is not legal on this program.
    """
    rewrite.requires(program)
    started = time.perf_counter()
    effect, nodes, held = effect_on(rewrite, program), len(program.graph.graph.nodes), held_bytes(program.graph)
    graph = program.graph if in_place else clone(program.graph)
    with followed_layers(graph):
        interface = rewrite.apply(graph, program)
    clean(graph)
    change = Change(
        name=rewrite.name,
        effect=effect,
        options=options(rewrite),
        nodes_before=nodes,
        nodes_after=len(graph.graph.nodes),
        bytes_before=held,
        bytes_after=held_bytes(graph),
        seconds=time.perf_counter() - started,
    )
    result = program.with_change(graph, interface, change)
    if isinstance(rewrite, Reshapes):
        result = replace(result, spec=rewrite.spec_after(result))
    rewrite.ensures(result)
    return result


def run_passes(program: Program, passes: Iterable[Pass], *, in_place: bool = False) -> Program:
    """Apply passes one after the other, each as ``run_pass`` does, but for those that have nothing to do."""
    for rewrite in passes:
        for each in concerned([rewrite], program):
            program = run_pass(program, each, in_place=in_place)
    return program


def options(rewrite: Pass) -> dict[str, Any]:
    """A pass's options as plain data: what JSON can hold, anything else by its ``str``."""
    return _fields(rewrite) if is_dataclass(rewrite) and not isinstance(rewrite, type) else {}


def _fields(record: Any) -> dict[str, Any]:
    return {field.name: _plain(getattr(record, field.name)) for field in fields(record)}


def _plain(value: Any) -> Any:
    if isinstance(value, int | float | bool | str | None):
        return value
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else str(value)


def clone(graph: GraphModule) -> GraphModule:
    """A copy of the nodes over the same tensors; ``meta`` (what earlier passes recorded) comes along."""
    copied = Graph()
    mapping: dict[Node, Node] = {}
    output: Any = copied.graph_copy(graph.graph, mapping, return_output_node=True)
    if output is not None:
        value, original = output
        copied.output(value).meta = dict(original.meta)
    copied._codegen = graph.graph._codegen
    result = GraphModule(graph, copied)
    result.meta.update(graph.meta)
    return result


def clean(graph: GraphModule) -> None:
    """Drop dead nodes and the tensors that nothing reads any more."""
    graph.graph.eliminate_dead_code()
    graph.graph.lint()
    graph.recompile()
    used = {str(node.target) for node in graph.graph.nodes if node.op == "get_attr"}
    tensors = [*graph.named_parameters(remove_duplicate=False), *graph.named_buffers(remove_duplicate=False)]
    for name, _ in tensors:
        if name not in used:
            remove(graph, name)


def erase_unread(node: Node) -> None:
    """Erase a node that nothing reads, and then whatever only it read; inputs and nodes with an effect stay.

    Dead code elimination of the whole graph gives the same, at a cost that grows with the graph.
    """
    pending = [node]
    while pending:
        last = pending.pop()
        if last.users or last.is_impure():
            continue
        sources = last.all_input_nodes
        last.graph.erase_node(last)
        pending.extend(source for source in sources if not source.users)


def nodes_of(graph: GraphModule, *targets: Any) -> list[Node]:
    """The call nodes of some operators, in order."""
    return [node for node in graph.graph.nodes if node.op == "call_function" and node.target in targets]


def placeholder(graph: GraphModule, name: str) -> Node:
    """The input called ``name``."""
    result: Node = next(node for node in graph.graph.nodes if node.op == "placeholder" and node.target == name)
    return result


def last_placeholder(graph: GraphModule) -> Node:
    """The last input, after which new nodes and inputs may be inserted."""
    result: Node = [node for node in graph.graph.nodes if node.op == "placeholder"][-1]
    return result


def output_node(graph: GraphModule) -> Node:
    """The node that returns a graph's results."""
    result: Node = next(node for node in reversed(graph.graph.nodes) if node.op == "output")
    return result
