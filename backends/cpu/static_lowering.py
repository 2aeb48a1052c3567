"""A Program of one method (encoder, vision model, any module) to a .pte through ExecuTorch's XNNPACK partitioner.

    Program -> torch.export -> to_edge_transform_and_lower(XNNPACK) -> .pte bytes

Decoders go through lower.py, which lowers equal layers once; here every partition is lowered separately. One
partitioner takes both float and quantised linears: the separate one for dynamic quantisation, run first, gives every
linear its own delegate (measured on a ViT of 2 layers: 19 delegates instead of 6, 17 s instead of 11 s).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from torch.fx import GraphModule, Node

from edgec.backends.cpu.rewrites.float_rows import write_out_float_rows
from edgec.backends.cpu.rewrites.fold_outside import fold_outside
from edgec.backends.cpu.rewrites.looped_layers import RECURRENT, loop_recurrent_layers
from edgec.backends.cpu.rewrites.pixel_shuffle import write_out_pixel_shuffles
from edgec.backends.cpu.rewrites.recurrent_layers import read_recurrent_integers
from edgec.backends.cpu.rewrites.reduced_dimensions import keep_reduced_dimensions
from edgec.backends.cpu.rewrites.slopes import write_out_slopes
from edgec.backends.cpu.rewrites.static_ranges import write_out_channels
from edgec.backends.cpu.rewrites.tanh_gelu import write_out_tanh_gelus
from edgec.errors import InputError
from edgec.ir.attention import OPERATOR
from edgec.ir.program import Program
from edgec.ir.recurrent_layers import GRU, LSTM, WEIGHT
from edgec.ir.reexport import reexport
from edgec.passes.contract import clone, nodes_of


@dataclass(frozen=True)
class OutsideOperator:
    """An operator on ExecuTorch's portable kernels: how often, and its multiply-accumulates per call of forward."""

    operator: str
    count: int
    macs: int


@dataclass(frozen=True)
class StaticLowered:
    """An artifact and where its arithmetic runs.

    Attributes:
        artifact: the .pte file's bytes, one method ``forward``.
        delegates: number of XNNPACK delegates.
        delegated: operators inside them, by name.
        delegated_macs: multiply-accumulates inside them, per call of forward.
        outside: operators outside, by name.
    """

    artifact: bytes
    delegates: int
    delegated: Mapping[str, int]
    delegated_macs: int
    outside: tuple[OutsideOperator, ...]

    def delegated_share(self) -> float:
        """Share of the multiply-accumulates inside delegates, 0..1; 1.0 for a model without any."""
        total = self.delegated_macs + sum(each.macs for each in self.outside)
        return self.delegated_macs / total if total else 1.0


def lower_static(program: Program, own_loops: bool = False) -> StaticLowered:
    """Lower a program; where a size varies, memory is planned for its largest.

    Args:
        program: after its passes.
        own_loops: LSTM and GRU layers call edgec's operators, and are not loops of ExecuTorch's.

    Raises:
        InputError: E182, attention is still in edgec's own form.
    """
    _check(program)
    edge = _to_edge(program)
    graph: GraphModule = edge.exported_program().graph_module
    outside = [each for each in _works(operators(graph)) if own_loops or each.operator not in RECURRENT]
    fold_outside(edge.exported_program())
    loops = [] if own_loops else loop_recurrent_layers(edge)
    outside += [OperatorWork(name, 0) for each in loops for name in each.operators]
    outside += [work for each in loops for work in _works(operators(each.step), each.steps)]
    delegates = [(body, 1) for body in delegate_graphs(graph)]
    delegates += [(body, each.steps) for each in loops for body in delegate_graphs(each.step)]
    inside = [work for body, times in delegates for work in _works(operators(body), times)]
    return StaticLowered(
        artifact=bytes(edge.to_executorch().buffer),
        delegates=len(delegates),
        delegated=MappingProxyType(Counter(each.operator for each in inside)),
        delegated_macs=sum(each.macs for each in inside),
        outside=_outside(outside),
    )


def _check(program: Program) -> None:
    if nodes_of(program.graph, OPERATOR):
        raise InputError(
            what="the program cannot be lowered as it is",
            where="xnnpack",
            why="edgec::attention has no kernel here",
            fix="add the pass decompose_attention to the recipe",
            code="E182",
        )


def _to_edge(program: Program) -> Any:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    graph = clone(program.graph)
    write_out_tanh_gelus(graph)
    write_out_slopes(graph)
    keep_reduced_dimensions(graph)
    write_out_pixel_shuffles(graph)
    write_out_channels(graph)
    write_out_float_rows(graph)
    read_recurrent_integers(graph)
    return to_edge_transform_and_lower(
        reexport(graph, program.interface),
        partitioner=[XnnpackPartitioner()],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )


def delegate_graphs(graph: GraphModule) -> Iterator[GraphModule]:
    """The graph that each delegate was made from."""
    from executorch.exir.delegate import executorch_call_delegate

    for node in nodes_of(graph, executorch_call_delegate):
        lowered: Any = node.args[0]
        yield getattr(graph, lowered.target).original_module.graph_module


def operators(graph: GraphModule) -> list[Node]:
    """The call nodes that do work: no delegate calls, no picking from tuples, no sizes."""
    return [node for node in graph.graph.nodes if node.op == "call_function" and hasattr(node.target, "_schema")]


@dataclass(frozen=True)
class OperatorWork:
    """One call node: the name of its operator, and its multiply-accumulates per call of forward."""

    operator: str
    macs: int


def _works(nodes: Iterable[Node], times: int = 1) -> list[OperatorWork]:
    """The work of call nodes that are executed a number of times."""
    return [OperatorWork(operator_name(node), times * macs(node)) for node in nodes]


def _outside(works: Iterable[OperatorWork]) -> tuple[OutsideOperator, ...]:
    counts: Counter[str] = Counter()
    work: Counter[str] = Counter()
    for each in works:
        counts[each.operator] += 1
        work[each.operator] += each.macs
    return tuple(OutsideOperator(name, count, work[name]) for name, count in sorted(counts.items()))


def operator_name(node: Node) -> str:
    """An operator's ``namespace::name`` without its overload."""
    schema = getattr(node.target, "_schema")  # noqa: B009  (Node.target is a union that mypy cannot narrow)
    return str(schema.name)


def macs(node: Node) -> int:
    """Multiply-accumulates of a matrix product or a convolution; 0 for every other operator."""
    count = _MACS.get(operator_name(node))
    return count(node) if count else 0


def _shape(node: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in node.meta["val"].shape)


def _product(node: Node, left: int) -> int:
    """Output elements times the contracted width, the last dimension of the left factor."""
    return math.prod(_shape(node)) * _shape(node.args[left])[-1]


def _convolution(node: Node) -> int:
    """Elements of the output (of the input when transposed) times one filter of weight [out, in/groups, *kernel]."""
    transposed = bool(node.args[6])
    elements = math.prod(_shape(node.args[0] if transposed else node))
    return elements * math.prod(_shape(node.args[1])[1:])


def _recurrent(node: Node, place: int) -> int:
    """Each value added to a gate [B, T, rows] times the width of the matrix that reads the hidden state."""
    return math.prod(_shape(node.args[0])) * _shape(node.args[place])[-1]


_MACS: Mapping[str, Callable[[Node], int]] = {
    "aten::mm": lambda node: _product(node, 0),
    "aten::bmm": lambda node: _product(node, 0),
    "aten::linear": lambda node: _product(node, 0),
    "aten::addmm": lambda node: _product(node, 1),
    "aten::convolution": _convolution,
    "edgec::lstm": lambda node: _recurrent(node, WEIGHT[LSTM]),
    "edgec::gru": lambda node: _recurrent(node, WEIGHT[GRU]),
}
