"""Measure, on a rewritten graph, what became of each matrix that the checkpoint stores as integers.

The values that the graph's integers or tables stand for are held against those of the library that defines the
checkpoint's format: equal or not, to the bit, and how far away.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.bundle.checkpoint_matrices import CheckpointMatrix, Fate
from edgec.ir.attributes import attribute
from edgec.ir.lut_form import DEQUANTIZE_LUT
from edgec.ir.program import Program
from edgec.ir.quantized_form import RECORD, WEIGHT_FORMS, decisions_of, parameter_name
from edgec.ir.weight_decision import FATES, KEPT, RE_EXPRESSED, ROUNDED_AGAIN, Decision
from edgec.passes.compress.rounding.stored_integers import StoredForm, StoredIntegers, stored_weights, unkept

_COMPARED = 1 << 22


def judge_stored(program: Program, half: bool) -> tuple[CheckpointMatrix, ...]:
    """The fate of every stored matrix that the graph still reads; decisions in the graph's record get theirs, too.

    Args:
        program: after its compressing passes.
        half: whether the artifact holds floats in float16.
    """
    graph = program.graph
    stored = stored_weights(graph)
    if stored is None:
        return ()
    forms = _forms(graph)
    judged = [_judged(graph, stored, decision, forms, half) for decision in decisions_of(graph)]
    graph.meta[RECORD] = tuple(judged)
    worst: dict[str, Decision] = {}
    for decision in judged:
        if decision.fate:
            tensor = stored.forms[decision.name].name
            worst[tensor] = _worse(decision, worst.get(tensor, decision))
    rounded = [_matrix(graph, decision, stored.forms[decision.name]) for decision in worst.values()]
    names = [name for name in _float_names(graph) if name in stored.forms and stored.forms[name].name not in worst]
    return (*rounded, *(_float_matrix(stored, name, half) for name in names))


def _worse(one: Decision, other: Decision) -> Decision:
    """The decision that says more about a tensor that is a table and a matrix."""
    return one if FATES.index(one.fate) > FATES.index(other.fate) else other


def _forms(graph: GraphModule) -> dict[str, Node]:
    """The nodes that make matrices of integers or indices, by the name of these."""
    targets = {*WEIGHT_FORMS, DEQUANTIZE_LUT}
    found = [node for node in graph.graph.nodes if node.target in targets]
    return {str(node.args[0].target): node for node in found if isinstance(node.args[0], Node)}


def _float_names(graph: GraphModule) -> list[str]:
    """The parameters that the graph reads as floats."""
    leaves = [node for node in graph.graph.nodes if node.op == "get_attr" and node.users]
    return list(dict.fromkeys(parameter_name(node) for node in leaves))


def _judged(
    graph: GraphModule, stored: StoredIntegers, decision: Decision, forms: dict[str, Node], half: bool
) -> Decision:
    found = stored.forms.get(decision.name)
    if found is None:
        return decision
    wanted = stored.values(decision.name)
    made = _computed(graph, forms[decision.buffers[0]]) if decision.used else _as_float(wanted, half)
    error = relative_error(made, wanted)
    kept = decision.used is not None and decision.used.stored == found.form
    fate = ROUNDED_AGAIN if error else KEPT if kept else RE_EXPRESSED
    return replace(decision, found=found.form, fate=fate, error=error)


def _computed(graph: GraphModule, node: Node) -> Tensor:
    given: list[Any] = [attribute(graph, str(arg.target)) if isinstance(arg, Node) else arg for arg in node.args]
    with torch.no_grad():
        values: Tensor = node.target(*given, **node.kwargs)  # type: ignore[operator]
    return values


def _as_float(values: Tensor, half: bool) -> Tensor:
    return values.half() if half else values


def relative_error(made: Tensor, wanted: Tensor) -> float:
    """The norm of the difference over that of the second; 0.0 only where both are equal."""
    parts = zip(made.reshape(-1).split(_COMPARED), wanted.reshape(-1).split(_COMPARED), strict=True)
    sums = [(float((a.double() - b).square().sum()), float(b.double().square().sum())) for a, b in parts]
    away, whole = (sum(column) for column in zip(*sums, strict=True))
    return float((away / whole) ** 0.5) if away and whole else float(away > 0)


def _matrix(graph: GraphModule, decision: Decision, found: StoredForm) -> CheckpointMatrix:
    fate: Fate = decision.fate  # type: ignore[assignment]
    reason = "" if fate == KEPT else decision.reason or unkept(graph, decision.name, decision.used)
    used = str(decision.used) if decision.used else "float"
    return CheckpointMatrix(
        name=found.name,
        found=found.form,
        used=used,
        fate=fate,
        error=decision.error or 0.0,
        bytes=found.bytes,
        reason=reason,
    )


def _float_matrix(stored: StoredIntegers, name: str, half: bool) -> CheckpointMatrix:
    """A matrix that no pass rounds."""
    found, values = stored.forms[name], stored.values(name)
    error = relative_error(_as_float(values, half), values)
    fate: Fate = "rounded again" if error else "re-expressed"
    used = "float16" if half else "float32"
    return CheckpointMatrix(name=found.name, found=found.form, used=used, fate=fate, error=error, bytes=found.bytes)
