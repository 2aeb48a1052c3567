"""What models of several methods share on a CPU: what is kept of their rewrites, and how their rungs are compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from torch import Tensor

from edgec.bundle.manifest import Rung
from edgec.exporter.parity import ladder
from edgec.exporter.parity.ladder import Stage, lowering_rung, quality_rung
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.stages.compiled import Rewrite, save_rewrite
from edgec.exporter.stages.decoder import quality_budget
from edgec.exporter.stages.rewriting import Rewritten
from edgec.ir.program import Program

FORWARD: Final = "forward"
EXECUTED: Final = "executed by ExecuTorch on this machine"
REFERENCE: Final = "transformers float32"


def keep_rewrites(folder: Path, done: Mapping[str, Rewritten], tensors: Mapping[str, Tensor]) -> None:
    """Leave the rungs of all methods in ``folder``, their last outputs, and what their reference computed."""
    outputs = {f"{name}.final": each.final.logits for name, each in done.items()}
    rungs = [named(rung, name) for name, each in done.items() for rung in each.rungs]
    names = Rewrite(rungs=rungs, reference=REFERENCE, final=done[FORWARD].final.name)
    save_rewrite(folder, names, {**outputs, **tensors, "reference": done[FORWARD].reference.logits})


def named(rung: Rung, method: str) -> Rung:
    """A rung that says which method it is about."""
    return rung.model_copy(update={"stage": f"{method}: {rung.stage}", "reference": f"{method}: {rung.reference}"})


def no_layers(_: Program) -> Mapping[int, Tensor]:
    """No layer is told apart: several methods have layers of the same number, or one attends twice."""
    return {}


def forward_rung(final: Stage, artifact: Stage, recipe: Recipe, loose: bool) -> Rung:
    """The executed method that writes text against its graph; ``loose``: values were rounded."""
    budget = ladder.ROUNDED_LOWERING if loose else {**ladder.FLOAT_LOWERING, **recipe.budgets}
    return named(lowering_rung(final, artifact, budget, rounded=loose, note=EXECUTED), FORWARD)


def whole_rung(wanted: Tensor, whole: Stage, recipe: Recipe, *, loose: bool, trained: bool) -> Rung:
    """The artifact, all methods one after the other, against transformers' own model."""
    original = Stage(REFERENCE, wanted)
    if loose:
        return quality_rung(original, whole, quality_budget(recipe), gated=trained, note=EXECUTED)
    return lowering_rung(original, whole, {**ladder.WHOLE_LOWERING, **recipe.budgets}, note=EXECUTED)
