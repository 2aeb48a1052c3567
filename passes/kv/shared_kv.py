"""Let the last layers read the keys and values of an earlier one: their own projections and caches are removed.

    layer 4   k4, v4 -> attention 4                       layer 4   k4, v4 -> attention 4
    layer 5   k5, v5 -> attention 5          ==>          layer 5   k4, v4 -> attention 5
    layer 6   k6, v6 -> attention 6                       layer 6   k4, v4 -> attention 6

Apple's on-device model shares 3 of 8 layers this way (arXiv 2507.13575), Gemma 3n and 4 are made so. A layer's donor
is the last layer before the boundary with the same window, KV heads, head widths and rotation. Queries stay its own.

Legality: causal attention, before ``kv_cache``. Semantic, as the model was not trained for it; exact where it shares
natively, and nothing changes. Projections of k and v vanish with their norms and weights; a fused projection keeps its
rows of q. With ``prefill_skip``, layers after the boundary run for the last token only. Counted on 8 layers of
Qwen3-0.6B at 5/8: KV values per token 16,384 -> 10,240; multiply-accumulates of prefill 512: 73.2 G -> 69.9 G, with
``prefill_skip`` 37.8 G.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.attention import OPERATOR, AttentionCall
from edgec.ir.kv_donors import BOUNDARY, donors, kept_layers, with_donors
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.spec import ModelSpec
from edgec.passes.contract import nodes_of
from edgec.passes.kv.sharing.narrow_linear import narrow_linears
from edgec.passes.kv.sharing.projected_kv import hidden_states, project
from edgec.passes.kv.sharing.rotation import rotations

MODES = ("reuse", "project")


@dataclass(frozen=True)
class SharedKv:
    """Let layers from ``boundary`` on read an earlier layer's keys and values; semantic unless they do so already.

    Attributes:
        boundary: first layers that keep their own: a count, or a share of all layers (0..1).
        mode: ``reuse``: the donor's keys and values as they are; ``project``: its own projections of the hidden state
            at the boundary (``projected_kv.py``).
    """

    boundary: float | int | str = BOUNDARY
    mode: str = "reuse"
    name: str = "shared_kv"
    effect: Effect = Effect.SEMANTIC

    def requires(self, program: Program) -> None:
        """The mode is known, attention is causal and not yet cached, and each layer after the boundary has a donor."""
        if self.mode not in MODES:
            raise _refused("E187", f"no such mode: {self.mode!r}", self.name, "", f"use one of {', '.join(MODES)}")
        calls = _calls(program.graph)
        if program.spec is None or not calls or not all(call.causal for call in calls.values()):
            why = "the model is not a decoder, or its attention reads a cache already"
            raise _refused("E188", "no causal attention to share", self.name, why, "leave shared_kv out of the recipe")
        if len(calls) < len(nodes_of(program.graph, OPERATOR)):
            why = "a layer attends several times, so that it has several pairs of keys and values"
            raise _refused("E188", "no layer has keys and values to share", self.name, why, "leave shared_kv out")
        if self.mode == "project":
            hidden_states(program.graph)
        self._donors(program.graph, program.spec)

    def effect_on(self, program: Program) -> Effect:
        """Exact where every layer already reads its donor's keys and values."""
        assert program.spec is not None
        if self.mode == "project":
            return self.effect
        calls = _calls(program.graph)
        pairs = self._donors(program.graph, program.spec).items()
        same = all((calls[a].k, calls[a].v) == (calls[b].k, calls[b].v) for a, b in pairs)
        return Effect.EXACT if same else self.effect

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Give each layer after the boundary its donor's keys and values."""
        assert program.spec is not None
        if self.mode == "project":
            project(graph, kept_layers(self.boundary, len(program.spec.layers)))
        else:
            self._reuse(graph, program.spec)
        graph.graph.eliminate_dead_code()
        narrow_linears(graph)
        return program.interface

    def _reuse(self, graph: GraphModule, spec: ModelSpec) -> None:
        lenders, calls = self._donors(graph, spec), _calls(graph)
        for node in nodes_of(graph, OPERATOR):
            layer = AttentionCall.of(node).layer
            if layer in lenders:
                donor = calls[lenders[layer]]
                node.update_arg(1, donor.k)
                node.update_arg(2, donor.v)

    def spec_after(self, program: Program) -> ModelSpec | None:
        """The spec with the donors that the graph now has."""
        return program.spec and with_donors(program.spec, readers(program.graph))

    def ensures(self, program: Program) -> None:
        """No layer after the boundary has its own keys, or keys from its own hidden state."""
        assert program.spec is not None
        kept = kept_layers(self.boundary, len(program.spec.layers))
        if self.mode == "project":
            sources = hidden_states(program.graph)
            assert all(source is sources[kept] for layer, source in sources.items() if layer >= kept)
            return
        assert all(layer in readers(program.graph) for layer in _calls(program.graph) if layer >= kept)

    def _donors(self, graph: GraphModule, spec: ModelSpec) -> dict[int, int]:
        # For each layer, the properties that two layers must share to read the same keys and values.
        calls = _calls(graph)
        rotated = rotations(graph, {layer: call.k for layer, call in calls.items()})
        kinds = {layer: (call.window, *_widths(call), rotated[layer]) for layer, call in calls.items()}
        return donors(kinds, kept_layers(self.boundary, len(spec.layers)))


def readers(graph: GraphModule) -> dict[int, int]:
    """Each layer that reads an earlier layer's keys and values, with that layer."""
    first: dict[tuple[Node, Node], int] = {}
    owners = {layer: first.setdefault((call.k, call.v), layer) for layer, call in sorted(_calls(graph).items())}
    return {layer: owner for layer, owner in owners.items() if layer != owner}


def _calls(graph: GraphModule) -> dict[int, AttentionCall]:
    calls = (AttentionCall.of(node) for node in nodes_of(graph, OPERATOR))
    return {call.layer: call for call in calls}


def _widths(call: AttentionCall) -> tuple[int, int, int]:
    """The number of KV heads, and the widths of a key and a value."""
    (_, heads, _, key), (_, _, _, value) = call.k.meta["val"].shape, call.v.meta["val"].shape
    return int(heads), int(key), int(value)


def _refused(code: str, what: str, where: str, why: str, fix: str) -> InputError:
    return InputError(what=f"shared_kv: {what}", where=where, why=why, fix=fix, code=code)
