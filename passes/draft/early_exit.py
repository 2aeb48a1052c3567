"""Keep the first layers of a decoder: a draft model that shares its vocabulary with the whole one.

    h0 -> layer 0 -> h1 -> ... -> hN -> layer N -> ... -> hL -> norm -> lm_head
    ==>
    h0 -> layer 0 -> h1 -> ... -> hN -> norm -> lm_head

(self-speculative decoding: Zhang et al. 2023, arXiv 2309.08168; LayerSkip, Elhoushi et al. 2024, arXiv 2404.16710.)
The hidden state between two layers is recognised in any model family: it is a value that every path from the tokens to
the logits goes through. All layers have the same number of such values, so that hL can be counted off.

Legality: the hidden state is the only thing that layers hand on (Gemma 3n also hands on embeddings of each token). A
model that was not trained to exit early loses much, which its acceptance shows; the whole model decides what is kept.
Measured on a tiny random Llama, 1 of 2 layers kept: 112 operators before, 65 after; 123,552 bytes before, 74,144 after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.attention import OPERATOR, AttentionCall
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.recurrence import RECURRENCES
from edgec.ir.spec import ModelSpec
from edgec.passes.contract import nodes_of, placeholder

# Operators that read only a tensor's shape do not pass a hidden state on.
_SHAPES = frozenset({torch.ops.aten.sym_size.int})


@dataclass(frozen=True)
class EarlyExit:
    """Keep the first ``layers`` layers, the last norm and the lm_head; semantic."""

    layers: int
    name: str = "early_exit"
    effect: Effect = Effect.SEMANTIC

    def effect_on(self, program: Program) -> Effect:
        """Exact where all layers are kept, else semantic."""
        return Effect.EXACT if program.spec and self.layers == len(program.spec.layers) else self.effect

    def spec_after(self, program: Program) -> ModelSpec | None:
        """The spec with the kept layers only."""
        return program.spec and replace(program.spec, layers=program.spec.layers[: self.layers])

    def requires(self, program: Program) -> None:
        """The model has that many layers, and the hidden states between them can be found."""
        hidden = hidden_states(program.graph)
        if not 1 <= self.layers < len(hidden):
            raise InputError(
                what=f"the model cannot end after {self.layers} layers",
                where=self.name,
                why=f"it has {max(0, len(hidden) - 1)} layers whose ends can be found",
                fix=f"keep 1 to {len(hidden) - 1}" if len(hidden) > 1 else "draft with another model or with heads",
                code="E196",
            )

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Let the last norm read the hidden state after the kept layers."""
        hidden = hidden_states(graph)
        if hidden[self.layers] is not hidden[-1]:
            hidden[-1].replace_all_uses_with(hidden[self.layers])
        return program.interface

    def ensures(self, program: Program) -> None:
        """The other layers are gone."""
        assert len(_first_attentions(program.graph)) == self.layers


def hidden_states(graph: GraphModule) -> list[Node]:
    """The values before the first layer, between the layers, and after the last; empty where they cannot be found."""
    if nodes_of(graph, *RECURRENCES):
        return []  # layers are found by their attention, and some have none
    cuts = list(_cuts(graph))
    places = {node: index for index, node in enumerate(graph.graph.nodes)}
    order = [places[node] for node in cuts]
    starts = [sum(place < places[attention] for place in order) - 1 for attention in _first_attentions(graph)]
    steps = {tuple(node.target for node in cuts[a + 1 : b + 1]) for a, b in pairwise(starts)}
    if len(steps) != 1 or starts[0] < 0:
        return []
    (step,) = steps
    end = starts[-1] + len(step)
    last = tuple(node.target for node in cuts[starts[-1] + 1 : end + 1])
    return [cuts[index] for index in (*starts, end)] if step and last == step else []


def _first_attentions(graph: GraphModule) -> list[Node]:
    """The first attention node of each layer, in order."""
    first: dict[int, Node] = {}
    for node in nodes_of(graph, OPERATOR):
        first.setdefault(AttentionCall.of(node).layer, node)
    return list(first.values())


def _cuts(graph: GraphModule) -> Iterator[Node]:
    """The nodes that every path from the tokens to the output goes through, in order.

    In any order of the graph, a node is such a cut exactly when, after it, no other value is still to be read: a node
    that neither precedes nor follows it would lie on a path around it.
    """
    inside = _between(graph)
    unread: dict[Node, int] = {}
    for node in (node for node in graph.graph.nodes if node in inside):
        for source in set(node.all_input_nodes) & unread.keys():
            unread[source] -= 1
            if not unread[source]:
                del unread[source]
        unread[node] = sum(user in inside for user in node.users)
        if len(unread) == 1 and node.op == "call_function":
            yield node


def _between(graph: GraphModule) -> set[Node]:
    """The nodes on a path from the tokens to the output."""
    reached = {placeholder(graph, "tokens")}
    for node in graph.graph.nodes:
        if node.target not in _SHAPES and any(source in reached for source in node.all_input_nodes):
            reached.add(node)
    useful = {node for node in graph.graph.nodes if node.op == "output"}
    for node in reversed(graph.graph.nodes):
        if node in reached and any(user in useful for user in node.users):
            useful.add(node)
    return useful & reached | {node for node in useful if node.op == "output"}
