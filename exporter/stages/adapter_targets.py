"""The matrices of an artifact that adapters may change, by the names of their modules in the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from edgec.bundle.adapter_targets import AdapterTarget, AdapterTargets
from edgec.ir.program import Program
from edgec.ir.quantized_form import decisions_of, parameter_name
from edgec.ir.stored_forms import PACKED_FORMS
from edgec.ir.weight_decision import Decision
from edgec.passes.compress.quantize import Quantize
from edgec.passes.equalise.rotate import Rotate
from edgec.passes.equalise.scale_migration import ScaleMigration

if TYPE_CHECKING:
    from edgec.backends.cpu.regions.delegate import DelegateConstant

# After these an input's channels are others than those that an adapter was trained on.
_CHANGED_BASIS = (Rotate.name, ScaleMigration.name)
_REORDERED = f"{Quantize.name} (act-order)"
_LM_HEAD = "lm_head"


def adapter_targets(program: Program, stored: Iterable[DelegateConstant]) -> AdapterTargets | None:
    """The targets of a decoder's artifact, in its order; None where edgec's kernels multiply by no matrix.

    Args:
        program: as it was lowered.
        stored: the constants of its delegates.
    """
    decisions = decisions_of(program.graph)
    floats = (parameter_name(node) for node in program.graph.graph.nodes if node.op == "get_attr")
    looked_up = {*floats, *(decision.name for decision in decisions if decision.role == "embedding")}
    readers = {name: d for d in decisions if d.role != "embedding" for name in d.buffers}
    targets = [
        AdapterTarget(name=_module(readers[one.name], looked_up), key=one.key, rows=one.matrix[0], width=one.matrix[1])
        for one in stored
        if one.matrix is not None and one.name in readers
    ]
    changed_by = [change.name for change in program.history if change.name in _CHANGED_BASIS]
    kept = (PACKED_FORMS.get(decision.used.stored) for decision in decisions if decision.used)
    changed_by += [_REORDERED] if any(form is not None and form.ordered for form in kept) else []
    return AdapterTargets(changed_by=changed_by, targets=targets) if targets else None


def _module(decision: Decision, looked_up: set[str]) -> str:
    """The module that multiplies by a matrix; a tied lm_head's has the embedding's name."""
    tied = decision.role == "vocabulary" and decision.name in looked_up
    return _LM_HEAD if tied else decision.name.removesuffix(".weight")
