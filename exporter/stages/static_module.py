"""Non-decoder models for NPUs, GPUs and ONNX Runtime: lowered by a backend of static methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import Tensor

from edgec.backends.static_artifact import StaticBackend, backend_of
from edgec.bundle.findings import Rung
from edgec.exporter.parity.ladder import FLOAT_LOWERING, HALF_MODULE, ROUNDED_MODULE, Stage, accepting, lowering_rung
from edgec.exporter.parity.outputs import flatten_outputs, worst_output_rung
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.passes import rounds_weights
from edgec.exporter.stages.artifact import function_of
from edgec.exporter.stages.compiled import Rewrite
from edgec.exporter.stages.module import ModuleStages
from edgec.exporter.stages.pass_orders import static_module_passes
from edgec.exporter.stages.static_lowering import lower_artifact, lower_methods
from edgec.ir.program import Program
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

    def varying(self) -> None:
        """Nothing varies: texts are padded to the longest."""

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the last graph; leave the artifact and its facts in ``folder``."""
        methods, given = {METHOD: self.rewritten(progress)}, self.examples()
        lower_methods(self.request, methods, folder, progress, {METHOD: [given]}, [given])

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor], progress: Progress) -> list[Rung]:
        """Execute the artifact on the example inputs and compare."""
        form, loose = self.request.form, rounds_weights(self.request.recipe)
        if not form.executed:
            return []
        outputs = tuple(function_of(artifact, form)(self.examples()))
        own = ROUNDED_MODULE if loose else HALF_MODULE if form.half else FLOAT_LOWERING
        note = self.backend.EXECUTED_BY
        budget = accepting(own, self.request.recipe)
        compare = partial(lowering_rung, budget=budget, rounded=loose or form.half, note=note)
        final, executed = Stage(rewrite.final, logits["final"]), Stage("artifact", flatten_outputs(outputs))
        forms = self.executed_forms(artifact, outputs)
        return [self.with_choices(worst_output_rung(final, executed, forms, compare), outputs, forms, compare)]

    def _executed(self, program: Program, folder: Path) -> Sequence[Tensor]:
        form, artifact = self.request.form, folder / self.request.form.artifact
        lower_artifact(self.request, {METHOD: program}, artifact, Progress(), [self.examples()])
        return tuple(function_of(artifact, form)(self.examples()))
