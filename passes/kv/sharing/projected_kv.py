"""Let the last layers compute keys and values from the hidden state at the boundary: shared_kv's mode ``project``.

    h4 -> layer 4 -> h5 -> norm 5 -> k5, v5 -> attention 5       h4 -> layer 4 -> h5 -> norm 5 -> q5 -> attention 5
                                                            ==>   h4 -> norm 5 -> k5, v5 ------------------^

SwiftKV (arXiv 2410.03960). Each layer keeps its projections and its cache, so that the model changes less than when it
reads another layer's keys; it saves work on the prompt: no layer after the boundary is needed for a later token, and
``prefill_skip`` runs them for the last token only.

A layer's hidden state is the last sum of two hidden states on the way to its keys and values (the residual stream);
the nodes between are copied to read the boundary's hidden state instead. Legality: that of ``shared_kv``, and such a
sum in every layer after the boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.attention import OPERATOR, AttentionCall
from edgec.passes.contract import nodes_of

aten = torch.ops.aten


def hidden_states(graph: GraphModule) -> dict[int, Node]:
    """The residual stream at the entrance of each layer but the first.

    Raises:
        InputError: E188, a layer's keys and values do not come from one sum of hidden states.
    """
    calls = sorted((AttentionCall.of(node) for node in nodes_of(graph, OPERATOR)), key=lambda call: call.layer)
    return {call.layer: _entrance(graph, call) for call in calls[1:]}


def project(graph: GraphModule, kept: int) -> None:
    """Let every layer after ``kept`` project its keys and values from that layer's entrance."""
    entrances = hidden_states(graph)
    for node in nodes_of(graph, OPERATOR):
        call = AttentionCall.of(node)
        if call.layer > kept:
            _move(graph, node, call, entrances[call.layer], entrances[kept])


def _entrance(graph: GraphModule, call: AttentionCall) -> Node:
    sources = _computed_from(call)
    sums = [node for node in graph.graph.nodes if node in sources and _adds_hidden_states(node)]
    if sums:
        result: Node = sums[-1]
        return result
    raise InputError(
        what="shared_kv: keys and values do not come from a residual stream",
        where=f"layer {call.layer}",
        why="the mode project looks for the sum of two hidden states that enters the layer",
        fix="use the mode reuse",
        code="E188",
    )


def _adds_hidden_states(node: Node) -> bool:
    """Whether a node adds two computed tensors of one shape [1, S, H], unlike a bias or an epsilon."""
    if node.target is not aten.add.Tensor:
        return False
    shapes = [value.meta["val"].shape for value in node.args[:2] if isinstance(value, Node) and value.op != "get_attr"]
    return len(shapes) == 2 and len(shapes[0]) == 3 and shapes[0] == shapes[1]


def _move(graph: GraphModule, attention: Node, call: AttentionCall, old: Node, new: Node) -> None:
    """Compute k and v again from another hidden state, right in front of their reader."""
    copies = {old: new}
    path = _computed_from(call) & _reached(old.users, lambda node: node.users)
    with graph.graph.inserting_before(attention):
        for node in [each for each in graph.graph.nodes if each in path]:
            copies[node] = graph.graph.node_copy(node, lambda source: copies.get(source, source))
    attention.update_arg(1, copies[call.k])
    attention.update_arg(2, copies[call.v])


def _computed_from(call: AttentionCall) -> set[Node]:
    """The nodes that keys and values are computed from, themselves included."""
    return _reached((call.k, call.v), lambda node: node.all_input_nodes)


def _reached(starts: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """The given nodes and all that ``following`` leads to from them."""
    reached: set[Node] = set()
    pending = list(starts)
    while pending:
        node = pending.pop()
        if node not in reached:
            reached.add(node)
            pending.extend(following(node))
    return reached
