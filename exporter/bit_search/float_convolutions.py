"""The convolutions that cost most in 8 bits, left in float so that a default's budget holds.

    every convolution rounded alone  ->  its loss  ->  the 1, 2, 3, 4, 6, ... with the largest in float  ->  budget

Losses are measured at the outputs, on some of the inputs that the module is judged on; the choice on all of them. A
last recipe leaves every convolution in float, where rounding these is not what misses the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgec.exporter.parity.ladder import Stage
from edgec.exporter.parity.output_form import forms_of, with_probabilities
from edgec.exporter.parity.refusals import used_share
from edgec.exporter.stages.module import ModuleStages
from edgec.exporter.stages.module_measure import module_measure
from edgec.ir.quantized_form import decisions_of
from edgec.passes.compress.quantize_convolutions import ROLE, QuantizeConvolutions
from edgec.passes.contract import run_pass, run_passes
from edgec.runtime_py.functions.prepared_inputs import spread

if TYPE_CHECKING:
    from edgec.exporter.progress import Progress
    from edgec.exporter.recipes.recipe import Recipe
    from edgec.exporter.request import ExportRequest
    from edgec.exporter.stages.rewriting import Measure
    from edgec.ir.program import Program

# Inputs of several kinds that the loss of each layer is measured on.
_FEW = 4
# Runs in which layers are weighed; of a deeper network neighbours are weighed together.
_MOST = 32
# Of the budget: linear layers are rounded, too, and the artifact rounds in its own order.
_ENOUGH = 0.7


def finer_recipes(request: ExportRequest, progress: Progress) -> tuple[Recipe, ...]:
    """Recipes with some, then with all convolutions in float; none where the model has none that are rounded.

    Args:
        request: what missed its budget.
        progress: told that layers are searched.
    """
    if request.source.kind != "module" or request.form.static or request.recipe.weights is None:
        return ()
    search = _Search.of(request)
    if search is None or not search.names:
        return ()
    progress.enter("search", "convolutions that cost most in 8 bits")
    chosen = {len(names): names for names in (*search.enough(), search.names)}
    return tuple(_keeping(request.recipe, names, len(search.names)) for names in chosen.values())


def _keeping(recipe: Recipe, names: Sequence[str], count: int) -> Recipe:
    rules = tuple((name, None) for name in names)
    told = f"{recipe.name}, {len(names)} of {count} convolutions in float"
    return replace(recipe, name=told, rules=(*rules, *recipe.rules))


@dataclass(frozen=True)
class _Search:
    """A program before its convolutions are rounded, the pass that rounds them, and how outputs are compared."""

    program: Program
    rounding: QuantizeConvolutions
    few: Measure
    every: Measure
    names: tuple[str, ...]

    @classmethod
    def of(cls, request: ExportRequest) -> _Search | None:
        stages = ModuleStages(request)
        passes = stages.passes()
        place = next((i for i, each in enumerate(passes) if isinstance(each, QuantizeConvolutions)), None)
        if place is None:
            return None
        rounding = passes[place]
        assert isinstance(rounding, QuantizeConvolutions)
        program, judged = run_passes(stages.capture(), passes[:place]), stages.judged()
        forms = with_probabilities(forms_of(judged.outputs[0], judged.calls[0]), judged.outputs)
        few, every = (
            module_measure(spread(judged.calls, count), forms, request.recipe, trained=True)
            for count in (_FEW, len(judged.calls))
        )
        decided = decisions_of(run_pass(program, rounding).graph)
        names = tuple(dict.fromkeys(each.name for each in decided if each.role == ROLE and each.used))
        return cls(program, rounding, few, every, names)

    def enough(self) -> tuple[tuple[str, ...], ...]:
        """The fewest of the costliest convolutions without which the others hold the budget, and half the others more.

        None where all convolutions hold it together.
        """
        before = Stage("float", self.every.run(self.program))
        if self._share(self.every, before, ()) <= _ENOUGH:
            return ()
        alone = Stage("float", self.few.run(self.program))
        size = -(-len(self.names) // _MOST)
        groups = [self.names[at : at + size] for at in range(0, len(self.names), size)]
        others = [tuple(each for each in self.names if each not in group) for group in groups]
        losses = [self._share(self.few, alone, kept) for kept in others]
        ranked = sorted(zip(losses, groups, strict=True), key=lambda pair: -pair[0])
        order = [name for _, group in ranked for name in group]
        count = 1
        while count < len(order) and self._share(self.every, before, order[:count]) > _ENOUGH:
            count += max(1, count // 2)
        return tuple(order[:count]), tuple(order[: (count + len(order) + 1) // 2])

    def _share(self, measure: Measure, before: Stage, kept: Sequence[str]) -> float:
        """How much of the budget is used with some convolutions in float."""
        rules = (*((name, None) for name in kept), *self.rounding.rules)
        after = run_pass(self.program, replace(self.rounding, rules=rules))
        rung = measure.quality(before, Stage("rounded", measure.run(after)))
        return max((used_share(rung, name, limit) for name, limit in rung.budget.items()), default=0.0)
