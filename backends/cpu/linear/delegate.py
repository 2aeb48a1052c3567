"""Clusters of linear layers as delegates of edgec's own backend, whose kernels read 2 to 8 bits in place.

    attention -> linear o -> + -> norm -> gate, up -> silu -> mul -> down -> + -> norm -> q, k, v
        ==>
    attention -> EdgecLinear(text of the steps; keys of the packed matrices) -> q, k, v

What its steps do not compute (float matrices, other groups) stays in the graph for XNNPACK.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch.fx import GraphModule, Node

from edgec.backends.cpu.linear.layout import BlockRows
from edgec.backends.cpu.linear.steps import MatrixGroup, NotExecutable, Step, executable, steps_of
from edgec.backends.cpu.linear.text import DelegateText
from edgec.backends.cpu.regions.clusters import clusters, constants_of
from edgec.backends.cpu.regions.delegate import DelegateConstant
from edgec.backends.cpu.regions.outline import LoweredBackendModule, outline_of
from edgec.backends.cpu.regions.region import border
from edgec.backends.cpu.regions.replace import replace_clusters

BACKEND = "EdgecLinear"


@dataclass(frozen=True)
class LinearRegion:
    """A cluster that the backend runs.

    Attributes:
        nodes: its nodes.
        inputs: the nodes that it reads, in order.
        outputs: its nodes that others read, in order.
        steps: what computes them.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    steps: tuple[Step, ...]


def linear_regions(graph: GraphModule) -> list[LinearRegion]:
    """The clusters of a graph that the backend runs, in graph order."""
    grown = clusters(graph.graph, lambda node: executable(graph, node))
    constants = constants_of(graph.graph)
    return [region for cluster in grown if (region := _region(graph, cluster, constants)) is not None]


def _region(graph: GraphModule, cluster: Sequence[Node], constants: Collection[Node]) -> LinearRegion | None:
    try:
        steps = steps_of(graph, cluster)
    except NotExecutable:
        return None
    inputs, outputs = border(cluster, constants)
    if not set(outputs) <= set(_computed(steps)):
        return None  # somebody else reads a quantised token
    return LinearRegion(tuple(cluster), inputs, outputs, steps)


def _computed(steps: Sequence[Step]) -> list[Node]:
    """The nodes that the steps write, in order."""
    written = ([p.out for p in step.products] if isinstance(step, MatrixGroup) else [step.out] for step in steps)
    return list(dict.fromkeys(node for nodes in written for node in nodes))


def replace_regions(
    graph: GraphModule, regions: Sequence[LinearRegion], block_rows: BlockRows, shelf: Path | None = None
) -> tuple[DelegateConstant, ...]:
    """Put delegates in place of the regions, and return what these store; ``shelf`` as in ``replace_clusters``."""
    return replace_clusters(graph, regions, "linear", lambda region: _delegate(graph, region, block_rows), shelf)


def _delegate(
    graph: GraphModule, region: LinearRegion, block_rows: BlockRows
) -> tuple[LoweredBackendModule, tuple[DelegateConstant, ...]]:
    numbered = {node: number for number, node in enumerate((*region.inputs, *_computed(region.steps)))}
    text = DelegateText(graph, block_rows, numbered)
    blob = text.blob(region.inputs, region.outputs, region.steps)
    outlined, data = outline_of(region.inputs, region.outputs), text.store.get_named_data_store_output()
    return LoweredBackendModule(outlined, BACKEND, blob, [], data), tuple(text.stored)
