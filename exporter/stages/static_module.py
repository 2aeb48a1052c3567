"""Models that are not decoders, for NPUs, GPUs and ONNX Runtime: their stages with a backend of static methods."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from edgec.backends.static_artifact import StaticBackend, backend_of
from edgec.bundle.manifest import Rung
from edgec.exporter.parity.ladder import FLOAT_LOWERING, HALF_MODULE, ROUNDED_MODULE, Stage, lowering_rung
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.passes import passes_for, rounds_weights
from edgec.exporter.stages.artifact import function_of
from edgec.exporter.stages.compiled import Rewrite, save_facts
from edgec.exporter.stages.lint import findings
from edgec.exporter.stages.lowering import lowered
from edgec.exporter.stages.module import ModuleStages, by_output, flat, sizes_of
from edgec.exporter.stages.static_facts import static_facts
from edgec.exporter.stages.static_weights import static_weight_facts
from edgec.passes.cleanup.fake_values import FakeValues
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.narrow_inputs import NarrowInputs
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.fuse.fuse_sdpa import FuseSdpa
from edgec.passes.static.decompose_attention import DecomposeAttention
from edgec.passes.static.finite_mask import FiniteMask
from edgec.passes.static.fp16_safe_norm import Fp16SafeNorm
from edgec.passes.static.linear_to_conv2d import LinearToConv2d
from edgec.passes.static.split_linear import SplitLinear

if TYPE_CHECKING:
    from edgec.exporter.pipeline import Request

METHOD = "main"


def static_module_stages(request: Request) -> StaticModuleStages:
    """Those of its form: in fixed point there is one rung more to check."""
    if not request.form.calibrated:
        return StaticModuleStages(request)
    from edgec.exporter.stages.calibrated_module import CalibratedModuleStages

    return CalibratedModuleStages(request)


@dataclass
class StaticModuleStages(ModuleStages):
    """The stages of a model without a KV cache whose target has static methods."""

    @property
    def backend(self) -> StaticBackend:
        """What lowers and executes it."""
        return backend_of(self.request.form.module)

    def passes(self) -> list[Pass]:
        """The passes of a module on this form, in order."""
        form = self.request.form
        weights = passes_for(self.request.recipe)
        known: list[Pass] = [FakeValues()] if weights else []
        before: list[Pass] = [RemoveNoops(), FuseSdpa(), FuseRmsNorm(), *weights, *known, DecomposeAttention()]
        half: list[Pass] = [Fp16SafeNorm()] if form.half else []
        split: list[Pass] = [SplitLinear(form.linear_width, form.logits_width)] if form.linear_width else []
        conv: list[Pass] = [LinearToConv2d()] if form.convolutions else []
        return [*before, *half, FoldConstants(), *split, *conv, FiniteMask(), NarrowInputs()]

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the last graph; leaves the artifact and its facts."""
        program = self.program or self._again(progress)
        form = self.request.form
        weights = static_weight_facts({METHOD: program}, form.half)
        found = findings({METHOD: program}, weights, {METHOD: [self._given()]}) if form.neural_engine else []
        progress.enter("lower")
        path = folder / form.artifact
        done = lowered(
            self.request,
            {METHOD: program},
            path,
            lambda name, part, total: progress.step(part / total, name),
            [self._given()],
        )
        save_facts(folder, static_facts({METHOD: program}, done, None, weights, found))

    def _given(self) -> tuple[Tensor, ...]:
        """The example inputs."""
        if not self.inputs:
            assert self.request.source.factory is not None
            _, self.inputs = self.request.source.factory()
        return self.inputs

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor]) -> list[Rung]:
        """Execute the artifact on the example inputs and compare."""
        form, loose = self.request.form, rounds_weights(self.request.recipe)
        if not form.executed:
            return []
        outputs = tuple(function_of(artifact, form)(self._given()))
        budget = ROUNDED_MODULE if loose else HALF_MODULE if form.half else FLOAT_LOWERING
        how = partial(lowering_rung, budget=budget, rounded=loose or form.half, note=self.backend.EXECUTED_BY)
        after = Stage("artifact", flat(outputs))
        return [by_output(Stage(rewrite.final, logits["final"]), after, sizes_of(outputs), how)]
