"""Locate where two executions diverge: the first attention layer whose output differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from edgec.exporter.parity.execution import record_layers
from edgec.ir.attention import layer_of
from edgec.ir.call_plan import Call, Tokens, call_inputs, compared_positions, last_rows
from edgec.ir.program import Interface, Program, TensorType
from edgec.ir.static_methods import GraphMethods, method_inputs
from edgec.passes.contract import clone


def first_diverging_layer(
    reference: Mapping[int, Tensor], candidate: Mapping[int, Tensor], tolerance: float
) -> int | None:
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
    if not program.interface.states:
        whole = record_layers(program.graph, _inputs(program.interface, tokens, Call(0, len(tokens), 1)))
        return {layer: value[:, compared_positions(plan)] for layer, value in whole.items()}
    parts = [(call, record_layers(program.graph, _inputs(program.interface, tokens, call))) for call in plan]
    return {layer: torch.cat([part[layer][:, -call.rows :] for call, part in parts], 1) for layer in parts[0][1]}


def _inputs(interface: Interface, tokens: Tokens, call: Call) -> list[Tensor]:
    return call_inputs(interface, tokens, call.start, call.size, last_rows(call))


def expose_layers(program: Program) -> Program:
    """The program with every attention output as an extra output, to look inside a lowered artifact."""
    graph = clone(program.graph)
    output = next(node for node in reversed(graph.graph.nodes) if node.op == "output")
    attentions = [node for node in graph.graph.nodes if layer_of(node) is not None]
    values = output.args[0]
    first = tuple(values) if isinstance(values, (tuple, list)) else (values,)
    output.args = ((*first, *attentions),)
    graph.recompile()
    extra = tuple(TensorType(f"layer_{layer_of(n)}", torch.float32, (1, -1, -1, -1)) for n in attentions)
    interface = Interface(program.interface.inputs, (*program.interface.outputs, *extra), program.interface.states)
    return Program(graph, interface, program.spec, program.history)


def artifact_layers(artifact: Path, exposed: Program, tokens: Tokens, plan: Sequence[Call]) -> dict[int, Tensor]:
    """Attention outputs, by layer, of an artifact that was lowered from a program of ``expose_layers``."""
    from edgec.runtime_py.engines.open_artifact import TorchMethod

    method = TorchMethod(artifact)
    layers = [layer for layer in (layer_of(node) for node in exposed.graph.graph.nodes) if layer is not None]
    parts: dict[int, list[Tensor]] = {layer: [] for layer in layers}
    for call in plan:
        outputs = method(_inputs(exposed.interface, tokens, call))
        # Where a layer attends several times, the last output counts, as in `record_layers`.
        for layer, value in dict(zip(layers, outputs[len(outputs) - len(layers) :], strict=True)).items():
            parts[layer].append(value[:, -call.rows :].clone())
    return {layer: torch.cat(values, 1) for layer, values in parts.items()}


def method_layers(methods: Mapping[str, Program], tokens: Tokens, plan: Sequence[Call]) -> dict[int, Tensor]:
    """Attention outputs [1, P, H, D] of static methods at the last token of every call, by layer."""
    exposed = GraphMethods({name: expose_layers(program) for name, program in methods.items()})
    layers: dict[int, list[Tensor]] = {}
    with torch.no_grad():
        for call in plan:
            named = exposed.outputs(*method_inputs(tokens, call, exposed.chunk))
            for name, value in named.items():
                if name.startswith("layer_"):
                    row = call.size - 1 if value.shape[1] > 1 else 0
                    layers.setdefault(int(name.removeprefix("layer_")), []).append(value[:, row : row + 1].clone())
    return {layer: torch.cat(values, 1) for layer, values in layers.items()}
