"""Clusters of linear layers as delegates of edgec's own backend, whose kernels read 2 to 8 bits as they lie.

    attention -> linear o -> + -> norm -> gate, up -> silu -> mul -> down -> + -> norm -> q, k, v
        ==>
    attention -> EdgecLinear(text of the steps; keys of the packed matrices) -> q, k, v

What its steps do not compute (float matrices, other groups) stays in the graph for XNNPACK.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from torch.fx import GraphModule, Node

from edgec.backends.edgec_linear.layout import BlockRows
from edgec.backends.edgec_linear.steps import Group, NotExecutable, Step, executable, steps_of
from edgec.backends.edgec_linear.text import DelegateText
from edgec.backends.xnnpack.clusters import clusters, is_constant
from edgec.backends.xnnpack.delegate import DelegateConstant
from edgec.backends.xnnpack.order import sort_stably
from edgec.backends.xnnpack.outline import LoweredBackendModule, outline_of
from edgec.passes.contract import clean

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
    grown = clusters(graph.graph, lambda node: not is_constant(node) and executable(graph, node))
    return [region for cluster in grown if (region := _region(graph, cluster)) is not None]


def _region(graph: GraphModule, cluster: Sequence[Node]) -> LinearRegion | None:
    inside = set(cluster)
    try:
        steps = steps_of(graph, cluster)
    except NotExecutable:
        return None
    sources = (s for n in cluster for s in n.all_input_nodes if s not in inside and not is_constant(s))
    outputs = tuple(node for node in cluster if any(user not in inside for user in node.users))
    if not set(outputs) <= set(_computed(steps)):
        return None  # somebody else reads a quantised token
    return LinearRegion(tuple(cluster), tuple(dict.fromkeys(sources)), outputs, steps)


def _computed(steps: Sequence[Step]) -> list[Node]:
    """The nodes that the steps write, in order."""
    written = ([p.out for p in step.products] if isinstance(step, Group) else [step.out] for step in steps)
    return list(dict.fromkeys(node for nodes in written for node in nodes))


def replace_regions(
    graph: GraphModule, regions: Sequence[LinearRegion], block_rows: BlockRows
) -> tuple[DelegateConstant, ...]:
    """Put delegates in place of the regions, and return what these store."""
    stored: list[DelegateConstant] = []
    moved: dict[Node, Node] = {}
    for index, region in enumerate(regions):
        text = DelegateText(graph, block_rows, _numbered(region))
        blob = text.blob(region.inputs, region.outputs, region.steps)
        module = LoweredBackendModule(
            outline_of(region.inputs, region.outputs), BACKEND, blob, [], text.store.get_named_data_store_output()
        )
        graph.add_module(f"linear_{index}", module)
        moved |= _call(graph, region, f"linear_{index}", moved)
        stored.extend(text.stored)
    sort_stably(graph.graph)
    clean(graph)
    return tuple(stored)


def _numbered(region: LinearRegion) -> dict[Node, int]:
    return {node: number for number, node in enumerate((*region.inputs, *_computed(region.steps)))}


def _call(graph: GraphModule, region: LinearRegion, name: str, moved: dict[Node, Node]) -> dict[Node, Node]:
    """Insert the delegate's call; ``moved`` maps nodes of earlier regions to the results that replace them."""
    with graph.graph.inserting_after(region.outputs[-1]):
        anchor = call = graph.graph.call_module(name, tuple(moved.get(node, node) for node in region.inputs))
    results = {}
    for index, output in enumerate(region.outputs):
        with graph.graph.inserting_after(anchor):
            anchor = graph.graph.call_function(operator.getitem, (call, index))
        anchor.meta = dict(output.meta)
        output.replace_all_uses_with(anchor)
        results[output] = anchor
    return results
