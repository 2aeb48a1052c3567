"""Non-decoder models for NPUs, GPUs and ONNX Runtime: lowered by a backend of static methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import Tensor

from edgec.backends.static_artifact import StaticBackend, backend_of
from edgec.bundle.findings import Rung
from edgec.exporter.parity.ladder import FLOAT_LOWERING, HALF_MODULE, ROUNDED_MODULE, Stage, accepting, lowering_rung
from edgec.exporter.parity.stress import check_stress, naming_made_inputs
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.passes import rounds_weights
from edgec.exporter.stages.artifact import function_of
from edgec.exporter.stages.compiled import Rewrite
from edgec.exporter.stages.float_layers import float_layers
from edgec.exporter.stages.module import ModuleStages
from edgec.exporter.stages.pass_orders import static_module_passes
from edgec.exporter.stages.static_lowering import lower_artifact, lower_methods
from edgec.ir.program import Program
from edgec.ir.weight_decision import Decision
from edgec.passes.contract import Pass

METHOD = "main"


@dataclass
class StaticModuleStages(ModuleStages):
    """The stages of a model without a KV cache whose target has static methods."""

    @property
    def backend(self) -> StaticBackend:
        """The backend that lowers and executes this model."""
        return backend_of(self.request.form.module)

    def passes(self) -> list[Pass]:
        """The passes of this model, in order."""
        return static_module_passes(self.request.recipe, self.request.form)

    def unrolled(self) -> str:
        """Nothing: a converter that knows no recurrent layers gets others, and ONNX has operators for them."""
        return ""

    def left_in_float(self) -> list[Decision]:
        """Convolutions and recurrent layers: static forms round linear layers alone, but for those in fixed point."""
        assert self.program is not None
        form = self.request.form
        return [] if form.calibrated else float_layers(self.program, self.request.recipe, 16 if form.half else 32)

    def varying(self) -> None:
        """Nothing varies: texts are padded to the longest."""

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the last graph; leave the artifact and its facts in ``folder``."""
        methods, judged = {METHOD: self.rewritten(progress)}, self.judged()
        held = [*judged.calls, *(each.inputs for each in judged.stress if each.moderate)]
        with naming_made_inputs(judged):
            lower_methods(self.request, methods, folder, progress, {METHOD: held}, judged.calls)

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor], progress: Progress) -> list[Rung]:
        """Execute the artifact on the inputs that the model is judged on, and compare."""
        form = self.request.form
        if not form.executed:
            return []
        function = function_of(artifact, form)
        compare = self.compare(self.backend.EXECUTED_BY)
        final = Stage(rewrite.final, logits["final"])
        rung = self.executed_rung(artifact, final, self.executed(function), compare)
        if form.half and rung.passed:
            check_stress(self.judged().stress, self.rewritten(progress), function)
        return [rung]

    def compare(self, note: str = "") -> Callable[[Stage, Stage], Rung]:
        """How an output of the artifact is compared with that of its graph."""
        half, loose = self.request.form.half, rounds_weights(self.request.recipe)
        own = ROUNDED_MODULE if loose else HALF_MODULE if half else FLOAT_LOWERING
        budget = accepting(own, self.request.recipe)
        return partial(lowering_rung, budget=budget, rounded=loose or half, note=note)

    def _function(self, program: Program, folder: Path) -> Callable[[Sequence[Tensor]], Sequence[Tensor]]:
        form = self.request.form
        artifact = folder / form.artifact
        lower_artifact(self.request, {METHOD: program}, artifact, Progress(), self.judged().calls)
        return function_of(artifact, form)
