"""Put a graph's nodes in a legal order without disturbing the order of writes and reads of state.

``torch.fx``'s own sort sees data edges only: it may move attention before the cache update whose effect it reads.
"""

from __future__ import annotations

import heapq
from collections import defaultdict

from torch.fx import Graph, Node


def sort_stably(graph: Graph) -> None:
    """Sort topologically, keeping the present order where possible; users of one buffer keep their sequence."""
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
