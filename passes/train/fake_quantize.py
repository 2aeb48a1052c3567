"""Round during training exactly as an export will: weights on learned scales, inputs to 8 bits, keys and values.

    x ---------------> linear(W)          x -> fake_input -> linear(fake_weight(W, log_scale))
    embedding(W, tokens)           ==>    embedding(fake_weight(W, log_scale), tokens)
    k, v ------------> attention          k -> fake_cache, v -> fake_cache -> attention
    experts(x, index, W)                  experts(fake_input(x), index, view(fake_weight(W, log_scale)))

Which weight gets which scheme is decided by ``quantize`` and ``quantize_embedding`` themselves, from the same recipe,
so the prepared graph and the exported one round alike: without a cache their logits are equal bit for bit (tested).
Scales are parameters of the graph, one per group, as logarithms; they begin where the recipe's algorithm puts them. A
tied matrix of one scheme has one grid for both readers. Routers of experts stay in float, as in an export.

Legality: the graph is not quantised yet and its attention reads no cache; weights are parameters. Approximate. Measured
on the example model: a step of 2 x 256 tokens takes 0.48 s of CPU time rounded to two bits, 0.36 s in float.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.attention import OPERATOR, AttentionCall
from edgec.ir.attributes import set_parameter
from edgec.ir.operators import CACHED_ATTENTION, grid_group
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import matrix, parameter_of
from edgec.ir.weight_decision import Decision
from edgec.ir.weight_scheme import BALANCED_SET
from edgec.passes.compress.expert_weights import flatten_experts, routers
from edgec.passes.compress.quantize import Quantize, Weight
from edgec.passes.compress.quantize_embedding import QuantizeEmbedding
from edgec.passes.compress.rounding.learned_grids import (
    SMALLEST_SCALE,
    LearnedGrid,
    grid_scheme,
    levels_of,
    needs_half,
    stored_scale,
)
from edgec.passes.compress.rounding.weight_grid import quantize_weight, without_inputs
from edgec.passes.compress.rounding.weight_tables import balanced_integers
from edgec.passes.contract import nodes_of
from edgec.passes.prefill.last_logits import lm_head_linear
from edgec.passes.train.low_rank import add_correction
from edgec.passes.train.straight_through import CACHES, fake_cache, fake_input, fake_weight

aten = torch.ops.aten
PREPARED = "edgec_prepared"


@dataclass(frozen=True)
class PreparedWeight:
    """A weight that is rounded while it is trained.

    Attributes:
        decision: how the weight is rounded.
        weight: name of the weight in the graph.
        log_scale: name of the parameter that holds the logarithms of its scales.
    """

    decision: Decision
    weight: str
    log_scale: str


@dataclass(frozen=True)
class FakeQuantize:
    """Train with the numbers that an export stores; approximate.

    Attributes:
        weights: the pass whose rounding linear layers imitate; None leaves them in float.
        embedding: the pass whose rounding embedding tables imitate; None leaves them in float.
        cache: dtype of the KV cache to imitate; float32 leaves keys and values alone.
    """

    weights: Quantize | None = None
    embedding: QuantizeEmbedding | None = None
    cache: str = "float32"
    name: str = "fake_quantize"
    effect: Effect = field(default=Effect.APPROXIMATE)

    def requires(self, program: Program) -> None:
        """Attention reads no cache yet, and the cache's dtype can be imitated."""
        cached = nodes_of(program.graph, CACHED_ATTENTION)
        if self.cache != "float32" and (self.cache not in CACHES or cached):
            raise InputError(
                what=f"fake_quantize: keys and values cannot be rounded as a {self.cache} cache does",
                where=self.name,
                why=f"it knows float32, {', '.join(CACHES)}, on attention that reads no cache yet",
                fix="run it on a captured graph, before kv_cache",
                code="E500",
            )
        for rewrite in (self.weights, self.embedding):
            if rewrite is not None:
                rewrite.requires(program)

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Round the weights, inputs, keys and values that layers read."""
        graph.meta[PREPARED] = ()
        if self.weights is not None:
            _Layers(graph, self.weights).prepare(lm_head_linear(graph) if program.spec else None)
        if self.embedding is not None:
            _prepare_lookups(graph, self.embedding)
        if self.cache != "float32":
            _round_cache(graph, self.cache)
        return program.interface

    def ensures(self, program: Program) -> None:
        """Every weight that was to be rounded is read through its grid."""
        read = {node.args[1].target for node in nodes_of(program.graph, fake_weight)}  # type: ignore[union-attr]
        assert all(each.log_scale in read for each in prepared(program.graph))


def prepared(graph: GraphModule) -> tuple[PreparedWeight, ...]:
    """The weights of a graph that are rounded while training."""
    weights: tuple[PreparedWeight, ...] = graph.meta.get(PREPARED, ())
    return weights


def learned_grids(graph: GraphModule) -> list[LearnedGrid]:
    """The scales as training left them, rounded as a file holds them."""
    return [
        LearnedGrid(
            each.decision.name,
            grid_scheme(each.decision),
            stored_scale(graph.get_parameter(each.log_scale).detach().float(), needs_half(each.decision)).cpu(),
        )
        for each in prepared(graph)
    ]


@dataclass
class _Layers:
    """Linear layers and experts of one graph; each input is rounded once for all its readers."""

    graph: GraphModule
    rewrite: Quantize
    rounded: dict[tuple[Node, int], Node] = field(default_factory=dict)

    def prepare(self, lm_head: Node | None) -> None:
        """Round the weights, and the inputs where the scheme says so."""
        routing = routers(self.graph)
        for linear in nodes_of(self.graph, aten.linear.default):
            if linear not in routing:
                self._round(linear, Weight(linear, 1), "vocabulary" if linear is lm_head else "linear")
        for experts, view in flatten_experts(self.graph).items():
            self._round(experts, Weight(view, 0), "linear")

    def _round(self, layer: Node, weight: Weight, role: str) -> None:
        read = weight.reader.args[weight.place]
        parameter = _parameter(read)
        decision = None if parameter is None else self.rewrite.decision_for(self.graph, parameter, role)
        if parameter is None or decision is None or decision.used is None:
            return
        rounded = _round_weight(self.graph, weight.reader, parameter, decision, read, self.rewrite.algorithm)
        weight.reader.update_arg(weight.place, rounded)
        if decision.used.activation_bits:
            layer.update_arg(0, self._input(layer, decision.used.activation_group or 0))

    def _input(self, layer: Node, group: int) -> Node:
        source = layer.args[0]
        assert isinstance(source, Node)
        if (source, group) not in self.rounded:
            with self.graph.graph.inserting_before(layer):
                self.rounded[source, group] = self.graph.graph.call_function(fake_input, (source, group))
        return self.rounded[source, group]


def _prepare_lookups(graph: GraphModule, rewrite: QuantizeEmbedding) -> None:
    for lookup in nodes_of(graph, aten.embedding.default):
        parameter = _parameter(lookup.args[0])
        decision = None if parameter is None else rewrite.decision_for(graph, parameter)
        if parameter is None or decision is None or decision.used is None:
            continue
        table = _round_weight(graph, lookup, parameter, decision, lookup.args[0], rewrite.algorithm)
        lookup.args = (table, *lookup.args[1:])


def _round_weight(
    graph: GraphModule, reader: Node, parameter: Node, decision: Decision, read: object, algorithm: str
) -> Node:
    """Round a weight in front of its reader; a tied one of the same scheme shares its grid."""
    grid = (decision.name, grid_scheme(decision))
    twin = next((e for e in prepared(graph) if (e.decision.name, grid_scheme(e.decision)) == grid), None)
    target = twin.log_scale if twin else _log_scale(graph, parameter, decision, algorithm)
    levels = levels_of(decision)
    with graph.graph.inserting_before(reader):
        scale = graph.graph.get_attr(target)
        arguments = (read, scale, levels.low, levels.high, levels.step, needs_half(decision))
        rounded = graph.graph.call_function(fake_weight, arguments)  # type: ignore[arg-type]
    if twin is None:
        graph.meta[PREPARED] = (*prepared(graph), PreparedWeight(decision, str(parameter.target), target))
    return rounded


def _parameter(read: object) -> Node | None:
    """The parameter that a weight argument reads, perhaps with a low-rank adapter added to it."""
    if isinstance(read, Node) and read.target is add_correction:
        read = read.args[0]
    return parameter_of(read)


def _log_scale(graph: GraphModule, parameter: Node, decision: Decision, algorithm: str) -> str:
    """Register a parameter with the logarithms of the scales that the recipe's algorithm finds; returns its name."""
    name = f"{parameter.target}{'_embedding' if decision.role == 'embedding' else ''}_log_scale"
    scale = _first_scale(matrix(graph, parameter), decision, algorithm)
    set_parameter(graph, name, nn.Parameter(scale.clamp_min(SMALLEST_SCALE).log()))
    return name


def _first_scale(weight: torch.Tensor, decision: Decision, algorithm: str) -> torch.Tensor:
    scheme = grid_scheme(decision)
    if scheme.kind == BALANCED_SET:
        return balanced_integers(weight, scheme, decision.name).scale[:: scheme.table_rows(weight.shape[0])]
    return quantize_weight(weight, scheme, without_inputs(algorithm), decision.name).scale


def _round_cache(graph: GraphModule, dtype: str) -> None:
    """Round keys and values as the cache will; layers that share them share the rounding."""
    rounded: dict[Node, Node] = {}
    for attention in nodes_of(graph, OPERATOR):
        call = AttentionCall.of(attention)
        for place, value in ((1, call.k), (2, call.v)):
            if value not in rounded:
                width = int(value.meta["val"].shape[-1])
                group = width if dtype == "float16" else grid_group(CACHES[dtype], width)
                with graph.graph.inserting_before(attention):
                    rounded[value] = graph.graph.call_function(fake_cache, (value, dtype, group))
            attention.update_arg(place, rounded[value])
