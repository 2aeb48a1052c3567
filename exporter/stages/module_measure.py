"""How a module's outputs are compared: on several inputs, each output at its own scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from edgec.exporter.parity.divergence import Layers
from edgec.exporter.parity.execution import record_layers
from edgec.exporter.parity.ladder import lowering_rung, quality_rung
from edgec.exporter.parity.output_form import OutputForm
from edgec.exporter.parity.outputs import joined_outputs, worst_call_rung
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.stages.rewriting import Measure
from edgec.ir.program import Program


def module_measure(
    calls: Sequence[Sequence[Tensor]], forms: Sequence[OutputForm], recipe: Recipe, trained: bool
) -> Measure:
    """How to measure a module: its outputs on several inputs, each compared at its own scale.

    Args:
        calls: the inputs of each call.
        forms: of each output of a call, in order.
        recipe: gives the budget.
        trained: whether rounding is gated.
    """

    def run(program: Program) -> Tensor:
        with torch.no_grad():
            return joined_outputs([program.graph(*call) for call in calls])

    return outputs_measure(run, lambda program: record_layers(program.graph, calls[0]), forms, recipe, trained)


def outputs_measure(
    run: Callable[[Program], Tensor],
    layers: Callable[[Program], Layers],
    forms: Sequence[OutputForm],
    recipe: Recipe,
    trained: bool,
) -> Measure:
    """How to measure outputs that are not distributions over tokens; ``run`` gives them in one row."""
    quality = partial(quality_rung, budget=module_budget(recipe), gated=trained)
    return Measure(
        run=run,
        lowering=lambda before, after: worst_call_rung(before, after, forms, lowering_rung),
        quality=lambda reference, after: worst_call_rung(reference, after, forms, quality),
        layers=layers,
    )


_OWN = ("channel_relative", "probability", "equal_share")


def module_budget(recipe: Recipe) -> Mapping[str, float]:
    """How far a module's outputs may differ; they are not distributions over tokens, so KL does not apply."""
    given = {name: recipe.budgets[name] for name in _OWN if name in recipe.budgets}
    return {"max_relative": recipe.budgets.get("max_relative", 0.25), **given}
