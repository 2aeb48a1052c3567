"""The clusters of nodes that go to XNNPACK together: convex, around the linear layers.

    norm -> linear q, k, v                                                                    the first delegate
    attention -> linear o -> + residual -> norm -> gate, up -> silu -> mul -> down -> + residual -> norm -> q, k, v
                                                                                              one delegate a layer
    (last rows) -> lm_head                                                                    the last

ExecuTorch's own partitioner makes 51 delegates of an 8-layer model and lowers each separately. Here there is one
between two attentions, the same in every layer except for its constants, so each kind is lowered once (delegate.py).
Norms over the hidden state are inside (norms.py).

Legality: a cluster may be contracted to one node only if no path leaves it and comes back.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator

import torch
import torchao.quantization.quant_primitives  # noqa: F401  (registers torch.ops.torchao)
from torch.fx import Graph, Node

aten = torch.ops.aten
torchao_ops = torch.ops.torchao

LINEAR = aten.linear.default
QUANTISED = frozenset(
    {
        torchao_ops.choose_qparams_affine.default,
        torchao_ops.quantize_affine.default,
        torchao_ops.dequantize_affine.default,
    }
)
_ELEMENTWISE = frozenset(
    {
        aten.add.Tensor,
        aten.sub.Tensor,
        aten.mul.Tensor,
        aten.silu.default,
        aten.gelu.default,
        aten.sigmoid.default,
        aten.tanh.default,
        aten.relu.default,
        aten.rsqrt.default,
    }
)


def clusters(graph: Graph, belongs: Callable[[Node], bool] | None = None) -> list[list[Node]]:
    """Disjoint convex node lists, each with at least one linear layer, in graph order.

    Args:
        graph: a decoder's graph.
        belongs: which nodes may be in a cluster, constants apart; None: those that XNNPACK runs.
    """
    state, constants = _Clusters(), constants_of(graph)
    for node in graph.nodes:
        if node not in constants and (belongs or supported)(node):
            state.place(node)
    order = {node: index for index, node in enumerate(graph.nodes)}
    grown = [sorted(members, key=order.__getitem__) for members in state.members.values()]
    return sorted((c for c in grown if any(n.target is LINEAR for n in c)), key=lambda c: order[c[0]])


def supported(node: Node) -> bool:
    """Whether XNNPACK runs this node, which is not constant, as part of a cluster."""
    if node.op != "call_function":
        return False
    if node.target is LINEAR or node.target in QUANTISED:
        return True
    if node.target is operator.getitem:
        return isinstance(node.args[0], Node) and node.args[0].target in QUANTISED
    return node.target in _ELEMENTWISE and _plain_tensors(node)


def _plain_tensors(node: Node) -> bool:
    """Whether a rank-3 float32 result of tensor operands: found between linear layers, not in attention's heads."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32 or value.dim() != 3:
        return False
    if node.kwargs.get("alpha", 1) != 1 or node.kwargs.get("approximate", "none") not in ("none", "tanh"):
        return False
    return all(isinstance(argument, Node) for argument in node.args)


def constants_of(graph: Graph) -> frozenset[Node]:
    """The nodes of a graph that are parameters, or computed from parameters alone.

    One walk in graph order: to ask each node for its sources again takes time with the square of the depth.
    """
    found: set[Node] = set()
    for node in graph.nodes:
        inputs = node.all_input_nodes
        if node.op == "get_attr" or (node.op == "call_function" and inputs and found.issuperset(inputs)):
            found.add(node)
    return frozenset(found)


class _Clusters:
    """Greedy growth in graph order; ``owner`` maps a node to its cluster's number."""

    def __init__(self) -> None:
        self.members: dict[int, list[Node]] = {}
        self.owner: dict[Node, int] = {}

    def place(self, node: Node) -> None:
        """Join the clusters that feed the node where that keeps them convex, or start a new one."""
        home = max(self.members, default=0) + 1
        self.members[home] = [node]
        self.owner[node] = home
        for source in node.all_input_nodes:
            neighbour = self.owner.get(source)
            if neighbour is not None and neighbour != home and not self._path_outside(neighbour, home):
                home = self._merge(neighbour, home)

    def _merge(self, kept: int, gone: int) -> int:
        for node in self.members.pop(gone):
            self.owner[node] = kept
            self.members[kept].append(node)
        return kept

    def _path_outside(self, first: int, second: int) -> bool:
        """Whether ``second`` also depends on ``first`` through a node of neither: merging would close a cycle."""
        pending = [n for n in self._inputs(second) if self.owner.get(n) not in (first, second)]
        seen: set[Node] = set()
        while pending:
            node = pending.pop()
            if self.owner.get(node) == first:
                return True
            if node not in seen:
                seen.add(node)
                home = self.owner.get(node)
                pending.extend(node.all_input_nodes if home is None else self._inputs(home))
        return False

    def _inputs(self, cluster: int) -> Iterator[Node]:
        inside = set(self.members[cluster])
        return (s for node in self.members[cluster] for s in node.all_input_nodes if s not in inside)
