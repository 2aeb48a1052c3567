"""Measure, on a rewritten graph, what became of each matrix that the checkpoint stores as integers.

The values that the graph's integers or tables stand for are held against those of the library that defines the
checkpoint's format: equal or not, to the bit, and how far away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.bundle.checkpoint_matrices import CheckpointMatrix, Fate
from edgec.ir.attributes import transposed
from edgec.ir.lut_form import DEQUANTIZE_LUT
from edgec.ir.program import Program
from edgec.ir.quantized_form import RECORD, WEIGHT_FORMS, decisions_of, parameter_name
from edgec.ir.stored_rows import rows_of
from edgec.ir.weight_decision import FATES, KEPT, RE_EXPRESSED, ROUNDED_AGAIN, Decision
from edgec.passes.compress.rounding.stored_integers import (
    StoredForm,
    StoredIntegers,
    column_order,
    stored_weights,
    unkept,
)

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
    if f"decoder.{decision.name}" in transposed(graph):
        wanted = wanted.transpose(-1, -2)
    wanted = wanted.reshape(-1, wanted.shape[-1]) if wanted.dim() > 2 else wanted
    made = partial(_made, graph, forms[decision.buffers[0]]) if decision.used else partial(_as_float, half=half)
    error = _error_of_rows(made, wanted, column_order(graph, decision))
    kept = decision.used is not None and decision.used.stored == found.form
    fate = ROUNDED_AGAIN if error else KEPT if kept else RE_EXPRESSED
    return replace(decision, found=found.form, fate=fate, error=error)


def _made(graph: GraphModule, form: Node, wanted: Tensor, rows: slice) -> Tensor:
    """Rows of what a graph makes of its integers or tables."""
    with torch.no_grad():
        return rows_of(graph, form, rows)


def _as_float(wanted: Tensor, rows: slice, half: bool) -> Tensor:
    return wanted[rows].half() if half else wanted[rows]


def _error_of_rows(made: Callable[[Tensor, slice], Tensor], wanted: Tensor, order: Tensor | None = None) -> float:
    """As ``relative_error``, of matrices that exist a few million values at a time; ``order``: made's columns."""
    step = max(1, _COMPARED // wanted.shape[-1])
    blocks = (slice(start, min(start + step, len(wanted))) for start in range(0, len(wanted), step))
    columns = slice(None) if order is None else order
    return _relative([_squares(made(wanted, rows), wanted[rows][:, columns]) for rows in blocks])


def _squares(made: Tensor, wanted: Tensor) -> tuple[float, float]:
    """The sums of squares of the difference, and of what is wanted."""
    return float((made.double() - wanted).square().sum()), float(wanted.double().square().sum())


def _relative(sums: Sequence[tuple[float, float]]) -> float:
    away, whole = (sum(column) for column in zip(*sums, strict=True))
    return float((away / whole) ** 0.5) if away and whole else float(away > 0)


def relative_error(made: Tensor, wanted: Tensor) -> float:
    """The norm of the difference over that of the second; 0.0 only where both are equal."""
    parts = zip(made.reshape(-1).split(_COMPARED), wanted.reshape(-1).split(_COMPARED), strict=True)
    return _relative([_squares(a, b) for a, b in parts])


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
    found, error = stored.forms[name], 0.0
    if half:
        values = stored.values(name)
        error = _error_of_rows(partial(_as_float, half=True), values.reshape(-1, values.shape[-1]))
    fate: Fate = "rounded again" if error else "re-expressed"
    used = "float16" if half else "float32"
    return CheckpointMatrix(name=found.name, found=found.form, used=used, fate=fate, error=error, bytes=found.bytes)
