"""Put delegates in place of the clusters that they compute, and nodes in an order that states allow."""

from __future__ import annotations

import heapq
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, TypeVar

from torch.fx import Graph, GraphModule, Node

from edgec.backends.cpu.regions.delegate import DelegateConstant
from edgec.backends.cpu.regions.outline import LoweredBackendModule
from edgec.backends.cpu.regions.shelf import put_on_shelf
from edgec.passes.contract import clean


class Bordered(Protocol):
    """A cluster with the nodes that feed it, and its own nodes that others read."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes that feed it, in order."""

    @property
    def outputs(self) -> tuple[Node, ...]:
        """The cluster's nodes that other nodes read, in order."""


Region = TypeVar("Region", bound=Bordered)


def replace_clusters(
    graph: GraphModule,
    regions: Iterable[Region],
    name: str,
    delegate: Callable[[Region], tuple[LoweredBackendModule, tuple[DelegateConstant, ...]]],
    shelf: Path | None = None,
) -> tuple[DelegateConstant, ...]:
    """Replace clusters with delegates, and return what these store.

    Args:
        graph: the owner of the clusters.
        regions: in graph order.
        name: of the delegates' modules, which a number follows.
        delegate: makes the delegate of a region, and lists what it stores.
        shelf: a folder for its data (``put_on_shelf``).
    """
    stored: list[DelegateConstant] = []
    moved: dict[Node, Node] = {}
    for index, region in enumerate(regions):
        module, constants = delegate(region)
        put_on_shelf(module, shelf)
        stored.extend(constants)
        graph.add_module(f"{name}_{index}", module)
        moved |= _call(graph, region, f"{name}_{index}", moved)
    sort_stably(graph.graph)
    clean(graph)
    return tuple(stored)


def _call(graph: GraphModule, region: Bordered, name: str, moved: dict[Node, Node]) -> dict[Node, Node]:
    """Insert the delegate's call; ``moved`` maps nodes of earlier clusters to the results that replace them."""
    inputs = tuple(moved.get(node, node) for node in region.inputs)
    with graph.graph.inserting_after(region.outputs[-1]):
        call = graph.graph.call_module(name, inputs)
    anchor, outputs = call, {}
    for index, output in enumerate(region.outputs):
        with graph.graph.inserting_after(anchor):
            anchor = graph.graph.call_function(operator.getitem, (call, index))
        anchor.meta = dict(output.meta)
        output.replace_all_uses_with(anchor)
        outputs[output] = anchor
    return outputs


def sort_stably(graph: Graph) -> None:
    """Sort topologically, keeping the present order where possible; users of one buffer keep their sequence.

    ``torch.fx``'s own sort sees data edges only: it may move attention before the cache update whose effect it reads.
    """
    nodes = list(graph.nodes)
    index = {node: i for i, node in enumerate(nodes)}
    after = _state_order(nodes)
    waiting = {n: len({*n.all_input_nodes, *after[n]}) for n in nodes}
    readers: defaultdict[Node, list[Node]] = defaultdict(list)
    for node in nodes:
        for source in {*node.all_input_nodes, *after[node]}:
            readers[source].append(node)
    ready = [index[n] for n in nodes if not waiting[n]]
    heapq.heapify(ready)
    previous = graph._root
    while ready:
        node = nodes[heapq.heappop(ready)]
        previous.append(node)
        previous = node
        for reader in readers[node]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, index[reader])


def _state_order(nodes: list[Node]) -> defaultdict[Node, set[Node]]:
    """For each node, the node that touched the same buffer just before it."""
    after: defaultdict[Node, set[Node]] = defaultdict(set)
    last: dict[str, Node] = {}
    for node in nodes:
        for source in node.all_input_nodes:
            if source.op == "get_attr":
                touched = str(source.target)
                if touched in last and last[touched] is not node:
                    after[node].add(last[touched])
                last[touched] = node
    return after
