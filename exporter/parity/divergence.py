"""Locate where two executions diverge: the first attention layer whose output differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.fx import Node

from edgec.exporter.parity.execution import record_layers
from edgec.exporter.parity.probe_calls import ProbeCall, text_calls
from edgec.ir.attention import layer_of
from edgec.ir.call_plan import Call, Tokens
from edgec.ir.program import Program, TensorType
from edgec.ir.row_inputs import Placed
from edgec.ir.static_methods import GraphMethods, method_inputs
from edgec.passes.contract import clone, output_node

if TYPE_CHECKING:
    from edgec.runtime_py.engines.open_artifact import TorchMethod

Layers = Mapping[int, Tensor]
"""What each layer gives, by its number."""


def first_diverging_layer(reference: Layers, candidate: Layers, tolerance: float) -> int | None:
    """The first layer whose relative error (norm of the difference over the reference's norm) exceeds ``tolerance``."""
    for layer in sorted(set(reference) & set(candidate)):
        error = (reference[layer].float() - candidate[layer].float()).norm()
        if not float(error) <= tolerance * max(float(reference[layer].float().norm()), 1e-12):
            return layer
    return None


def program_layers(program: Program, tokens: Tokens, plan: Sequence[Call]) -> dict[int, Tensor]:
    """Attention outputs [1, P, H, D] at the compared positions, by layer; ``plan`` feeds programs with a cache.

    ``prefill_skip`` computes some layers only for the rows with logits, which are exactly these positions.
    """
    return call_layers(program, text_calls(program.interface, tokens, plan))


def call_layers(program: Program, calls: Sequence[ProbeCall]) -> dict[int, Tensor]:
    """Attention outputs [1, P, H, D] of some calls, by layer; of a layer that attends twice, the last."""
    return _joined(calls, [record_layers(program.graph, call.inputs) for call in calls])


def _joined(calls: Sequence[ProbeCall], parts: Sequence[Layers]) -> dict[int, Tensor]:
    """The compared rows of all calls after each other, by layer."""
    pairs = list(zip(calls, parts, strict=True))
    return {layer: torch.cat([_rows(part[layer], call.rows) for call, part in pairs], 1) for layer in parts[0]}


def _rows(value: Tensor, rows: Tensor | None) -> Tensor:
    """The compared rows of a layer that computed all of them, or these only."""
    return value if rows is None or value.shape[1] == len(rows) else value[:, rows]


def expose_layers(program: Program) -> Program:
    """The program with every attention output as an extra output, to look inside a lowered artifact."""
    program = replace(program, graph=clone(program.graph))
    attentions = [node for node in program.graph.graph.nodes if layer_of(node) is not None]
    return with_outputs(program, {node: f"layer_{layer_of(node)}" for node in attentions})


def with_outputs(program: Program, values: Mapping[Node, str]) -> Program:
    """The program with some values of its graph, by their names, after its own outputs; the graph is edited."""
    graph = program.graph
    output = output_node(graph)
    own = output.args[0]
    output.args = ((*(own if isinstance(own, (tuple, list)) else (own,)), *values),)
    graph.recompile()
    extra = (TensorType(name, node.meta["val"].dtype, (-1,) * node.meta["val"].dim()) for node, name in values.items())
    interface = replace(program.interface, outputs=(*program.interface.outputs, *extra))
    return Program(graph, interface, program.spec, program.history)


def showing(program: Program, values: Mapping[Node, str]) -> Program:
    """The program with some values of its graph among its outputs; a converter gives an output that is there once."""
    shown = set(_own_outputs(program))
    return with_outputs(program, {node: name for node, name in values.items() if node not in shown})


def shown_values(program: Program, values: Sequence[Node], outputs: Sequence[Tensor]) -> list[Tensor]:
    """The values of a program's nodes among the outputs of what ``showing`` made of it, in the nodes' order."""
    own = _own_outputs(program)
    places = {
        node: index for index, node in enumerate([*own, *(node for node in dict.fromkeys(values) if node not in own)])
    }
    return [outputs[places[node]] for node in values]


def _own_outputs(program: Program) -> list[Node]:
    own: Any = output_node(program.graph).args[0]
    return list(own) if isinstance(own, (tuple, list)) else [own]


def artifact_layers(method: TorchMethod, exposed: Program, calls: Sequence[ProbeCall]) -> dict[int, Tensor]:
    """Attention outputs, by layer, of a method that was lowered from a program of ``expose_layers``."""
    layers = [layer for layer in (layer_of(node) for node in exposed.graph.graph.nodes) if layer is not None]
    outputs = [method(call.inputs) for call in calls]
    # Where a layer attends several times, the last output counts, as in `record_layers`.
    parts = [dict(zip(layers, each[len(each) - len(layers) :], strict=True)) for each in outputs]
    return _joined(calls, parts)


def method_layers(
    methods: Mapping[str, Program],
    tokens: Tokens,
    plan: Sequence[Call],
    placed: Placed | None = None,
    memory: Mapping[str, Tensor] | None = None,
) -> dict[int, Tensor]:
    """Attention outputs [1, P, H, D] of static methods at the last token of every call, by layer.

    ``placed``: rows in the place of tokens, of the whole text; ``memory``: what is known of a source, by name.
    """
    # What stays the same in every call is a state that no call writes.
    exposed = GraphMethods({name: expose_layers(program) for name, program in methods.items()}, dict(memory or {}))
    layers: dict[int, list[Tensor]] = {}
    with torch.no_grad():
        for call in plan:
            named = exposed.outputs(*method_inputs(tokens, call, exposed.chunk, placed))
            for name, value in named.items():
                if name.startswith("layer_"):
                    row = call.size - 1 if value.shape[1] > 1 else 0
                    layers.setdefault(int(name.removeprefix("layer_")), []).append(value[:, row : row + 1].clone())
    return {layer: torch.cat(values, 1) for layer, values in layers.items()}
