"""Put the weights of linear layers on integer grids, and their inputs on 8 bits while they run.

    x -> linear(W)
    ==>
    x -> choose_qparams/quantize/dequantize (int8) -> linear(dequantize_affine(W_int, scale, 0))

Inputs of edgec's kernels, float32 [1, tokens, width], are rounded in groups of 32 values, each with its scale: trained
models have a few huge channels, and one scale for a whole token drowns the others. Other inputs have a scale and a zero
point for each token, as XNNPACK reads them.

The matrices of experts are quantised as one, [experts x rows, width]: ``view(dequantize_affine(W_int, ...))``. Routers
stay in float: they are small, and rounding would send tokens to other experts.

The integers of a checkpoint with act-order have the columns of a group side by side, and x is put into their order:
``index_select(x, -1, columns) -> .. -> linear``, once for all layers that read it in the same order.

Legality: W is a parameter, and x depends on an input. One activation chain serves every linear layer that reads the
same x. Where no kernel reads the asked scheme at a layer's width, the nearest one that kernels do read is used and the
reason recorded; a layer that reads one value stays in float.
Measured on stories260K, 4 bits in groups of 32: perplexity +9.9 % with ``mse``, +13.8 % with ``rtn``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.experts import EXPERTS
from edgec.ir.kernel_grids import DYNAMIC_INT8_KERNELS, KernelGrid, fit
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import (
    WEIGHT_FORMS,
    decisions_of,
    dequantized,
    drop_if_unused,
    matrix,
    parameter_name,
    parameter_of,
    quantize_input,
    record,
)
from edgec.ir.weight_decision import Decision, decide
from edgec.ir.weight_scheme import BALANCED_SET, CONTAINER, SchemeRule, WeightScheme, require_supported
from edgec.passes.compress.column_order import reorder_inputs
from edgec.passes.compress.expert_weights import flatten_experts, routers
from edgec.passes.compress.layer_walk import walk_layers
from edgec.passes.compress.rounding.gptq import Curvature
from edgec.passes.compress.rounding.placement import place_integers
from edgec.passes.compress.rounding.stored_integers import scheme_to_keep, unkept
from edgec.passes.compress.rounding.weight_grid import (
    GPTQ,
    IMPORTANCE,
    require_algorithm,
    without_inputs,
)
from edgec.passes.contract import nodes_of
from edgec.passes.graph.activation_statistics import second_moments
from edgec.passes.graph.calibration import Calibration, require_calibration
from edgec.passes.graph.weight_edits import is_constant
from edgec.passes.prefill.last_logits import lm_head_linear

aten = torch.ops.aten


@dataclass(frozen=True)
class Quantize:
    """Store the weights of linear layers as integers; approximate.

    Attributes:
        rules: (pattern on the parameter's name, scheme or None for float); the first match wins.
        default: the scheme of layers that no rule names; None leaves them in float.
        lm_head: the scheme of the lm_head when no rule names it; None leaves it in float.
        algorithm: how scales are chosen: ``rtn``, ``hqq`` or ``mse`` (see weight_grid); ``importance``: errors count as
            inputs are large on calibration text, or alike where there is none; ``gptq`` (see gptq).
        kernels: what the target's kernels can read, and so what may be stored.
        calibration: what ``importance`` runs the float graph on, and ``gptq`` layer by layer.
        keeps: whether integers that the checkpoint stores, and kernels read, are kept where no rule says otherwise.
    """

    rules: tuple[SchemeRule, ...] = ()
    default: WeightScheme | None = field(default_factory=WeightScheme)
    lm_head: WeightScheme | None = None
    algorithm: str = "mse"
    kernels: tuple[KernelGrid, ...] = DYNAMIC_INT8_KERNELS
    calibration: Calibration = field(default_factory=Calibration)
    keeps: bool = False
    name: str = "quantize"
    effect: Effect = Effect.APPROXIMATE

    def requires(self, program: Program) -> None:
        """Schemes and algorithm are known, and calibration is given where the algorithm needs it."""
        for scheme in (self.default, self.lm_head, *(scheme for _, scheme in self.rules)):
            if scheme is not None:
                require_supported(scheme, self.name)
        require_algorithm(self.algorithm, self.name)
        if self.algorithm == GPTQ:
            require_calibration(self.calibration, self.name)

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Quantise one matrix after the other; each float tensor is let go before the next is read."""
        lm_head = lm_head_linear(graph) if program.spec else None
        experts = flatten_experts(graph)
        every, routing = nodes_of(graph, aten.linear.default), routers(graph)
        computing = [node for node in every if node not in routing and not is_constant(node)]
        linears = [node for node in computing if parameter_of(node.args[1]) is not None]
        decisions: dict[Node, Decision] = {}
        weighted = self.algorithm == IMPORTANCE and self.calibration
        moments = second_moments(program, self.calibration.calls(program)) if weighted else {}

        def visit(linear: Node, curvature: Curvature | None) -> None:
            role = "vocabulary" if linear is lm_head else "linear"
            parameter = parameter_of(linear.args[1])
            assert parameter is not None
            known = KnownInputs(curvature, moments.get(str(parameter.target)))
            decisions[linear] = self._quantize(graph, Weight(linear, 1), role, known)

        if self.algorithm == GPTQ:
            walk_layers(replace(program, graph=graph), self.calibration, linears, visit, self.name)
        else:
            for linear in linears:
                visit(linear, None)
        # No inputs are seen for experts: which of them a token reaches depends on the text.
        for node, view in experts.items():
            decisions[node] = self._quantize(graph, Weight(view, 0), "linear", KnownInputs())
        layers = [*linears, *experts]
        record(graph, [decisions[layer] for layer in layers])
        reorder_inputs(graph, decisions)
        _quantize_inputs(graph, {layer: decisions[layer] for layer in layers})
        return program.interface

    def _quantize(self, graph: GraphModule, weight: Weight, role: str, known: KnownInputs) -> Decision:
        """Let a layer read integers; its input stays as it is."""
        reader, old = weight.reader, weight.reader.args[weight.place]
        parameter = parameter_of(old)
        assert parameter is not None
        decision = self.decision_for(graph, parameter, role)
        if decision.used is None:
            return decision
        algorithm = _algorithm(decision.requested, self.algorithm, known)
        decision = place_integers(graph, parameter, decision, algorithm, known.curvature, known.moments)
        with graph.graph.inserting_before(reader):
            reader.update_arg(weight.place, dequantized(graph, decision))
        drop_if_unused(graph, old if isinstance(old, Node) else None, parameter)
        return decision

    def decision_for(self, graph: GraphModule, parameter: Node, role: str) -> Decision:
        """How a layer's weight will be stored."""
        name, (rows, width) = parameter_name(parameter), matrix(graph, parameter).shape
        asked = self._asked(graph, name, role)
        packed_bits = 2 if asked and asked.kind == BALANCED_SET and self._reads_two_bits else 0
        used, reason = self._fitted(asked, width)
        reason = reason or (unkept(graph, name, used) if self.keeps else "")
        return decide(name, role, (rows, width), asked, (used, reason), packed_bits)

    def _asked(self, graph: GraphModule, name: str, role: str) -> WeightScheme | None:
        ruled = any(fnmatchcase(name, pattern) for pattern, _ in self.rules)
        if self.keeps and not ruled:
            kept = scheme_to_keep(graph, name, self.kernels, (self.default, self.lm_head))
            if kept is not None:
                return kept
        return self.scheme_for(name, role)

    @property
    def _reads_two_bits(self) -> bool:
        return any(grid.bits == 2 for grid in self.kernels)

    def _fitted(self, asked: WeightScheme | None, width: int) -> tuple[WeightScheme | None, str]:
        """The scheme that stores the asked one, and why it differs; the balanced set is held in 4 bits."""
        if asked is None:
            return None, ""
        if width == 1:
            return None, "a layer that reads one value has as many scales as weights"
        if asked.kind != BALANCED_SET:
            return fit(asked, width, self.kernels)
        used, _ = fit(CONTAINER, width, self.kernels)
        return (
            used,
            "" if used is None or self._reads_two_bits else f"stored as {used.bits}-bit integers -3, -1, 1 and 3",
        )

    def scheme_for(self, name: str, role: str) -> WeightScheme | None:
        """The scheme asked for a parameter: that of the first rule whose pattern matches, else the role's default."""
        for pattern, scheme in self.rules:
            if fnmatchcase(name, pattern):
                return scheme
        return self.lm_head if role == "vocabulary" else self.default

    def ensures(self, program: Program) -> None:
        """Every layer that was to be quantised reads integers."""
        decisions = decisions_of(program.graph)
        matrices = [d.used for d in decisions if d.role in ("linear", "vocabulary")]
        recorded = sum(used is not None and not used.is_table for used in matrices)
        weights = [n.args[1] for n in nodes_of(program.graph, aten.linear.default)]
        views = [n.args[2] for n in nodes_of(program.graph, EXPERTS)]
        weights += [view.args[0] for view in views if isinstance(view, Node) and view.target is aten.view.default]
        assert sum(isinstance(w, Node) and w.target in WEIGHT_FORMS for w in weights) >= recorded


@dataclass(frozen=True)
class KnownInputs:
    """What is known of a layer's inputs: their curvature, or the mean square of each, float32 [K]."""

    curvature: Curvature | None = None
    moments: Tensor | None = None


@dataclass(frozen=True)
class Weight:
    """Where a matrix is read: the argument of a node."""

    reader: Node
    place: int


def _algorithm(asked: WeightScheme | None, algorithm: str, known: KnownInputs) -> str:
    """The algorithm that finds a layer's integers, as it is recorded."""
    chosen = BALANCED_SET if asked and asked.kind == BALANCED_SET else without_inputs(algorithm)
    if known.curvature is None and known.moments is None:
        return chosen
    return f"{chosen}, {IMPORTANCE if known.curvature is None else GPTQ}"


def _quantize_inputs(graph: GraphModule, decisions: Mapping[Node, Decision]) -> None:
    """Put the inputs of integer layers on 8 bits where their scheme says so."""
    shared_inputs: dict[tuple[Node, int], Node] = {}
    for linear, decision in decisions.items():
        if decision.used and decision.used.activation_bits:
            shared = _shared_input(graph, linear, decision.shape[1], decision.used.activation_group or 0, shared_inputs)
            linear.update_arg(0, shared)


def _shared_input(
    graph: GraphModule, linear: Node, width: int, group: int, shared_inputs: dict[tuple[Node, int], Node]
) -> Node:
    """The 8-bit form of a linear layer's input; made once per input, in front of its first reader."""
    source = linear.args[0]
    assert isinstance(source, Node)
    # A linear layer's output has its input's rank; the input may be a new node without a known shape.
    shape = linear.meta["val"].shape
    tokens = len(shape) == 3 and (linear.target is EXPERTS or not isinstance(shape[0], int) or shape[0] == 1)
    key = source, group if tokens else 0
    if key not in shared_inputs:
        with graph.graph.inserting_before(linear):
            shared_inputs[key] = quantize_input(graph, source, len(shape), width, key[1])
    return shared_inputs[key]
