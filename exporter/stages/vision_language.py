"""Vision-language models on a CPU: the methods see and forward of one artifact, with a ladder for each.

    tile -> see -> features
                      |
    tokens, positions + features in the image's place -> forward -> logits     prefill and decode, as every decoder here

Each method's graph is compared with transformers' own model on the same inputs, each executed method with its graph;
at the end the artifact runs as a whole, from the pixels to the logits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from torch import Tensor

from edgec.bundle.manifest import VISION_LANGUAGE_METHODS, Rung
from edgec.errors import InputError
from edgec.exporter.capture.decoder import build_skeleton
from edgec.exporter.capture.vision_language import CapturedVisionLanguage, capture_vision_language
from edgec.exporter.parity import ladder
from edgec.exporter.parity.ladder import Stage, lowering_rung, quality_rung
from edgec.exporter.parity.vision_language import (
    EagerModel,
    ExecutedVisionLanguage,
    ImageProbe,
    VisionLanguageReference,
    image_probe,
    run_method,
)
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.passes import rounds_values
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.weights import HeldWeights
from edgec.exporter.stages.capturing import hold_weights
from edgec.exporter.stages.compiled import Rewrite
from edgec.exporter.stages.cpu_methods import lower_to_folder
from edgec.exporter.stages.decoder import decoder_measure
from edgec.exporter.stages.module import module_budget
from edgec.exporter.stages.pass_orders import vision_language_passes
from edgec.exporter.stages.rewriting import Measure, Rewritten, group_exact_passes, rewrite
from edgec.exporter.stages.several_methods import (
    EXECUTED,
    FORWARD,
    REFERENCE,
    forward_rung,
    keep_rewrites,
    named,
    no_layers,
    whole_rung,
)
from edgec.ir.program import Program
from edgec.passes.contract import run_passes

METHODS = VISION_LANGUAGE_METHODS
SEE, _ = METHODS


@dataclass
class VisionLanguageStages:
    """The stages of a vision-language model; its rewritten programs stay in memory between them."""

    request: ExportRequest
    programs: Mapping[str, Program] | None = None

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Run the reference, capture the model and apply its passes; leave rungs and outputs in ``folder``."""
        refuse_windows(self.request)
        weights = hold_weights(self.request.source)
        captured = dict(self._captured(weights, progress))
        progress.enter("reference")
        probe = self._probe(captured[SEE])
        reference = EagerModel(self.request.source, weights).reference(probe)
        weights.let_go()

        def capture(name: str) -> Program:
            """The captured program, which its passes use up; traced again where a failure has to be located."""
            return captured.pop(name, None) or self._captured(weights, progress)[name]

        done = {name: self._rewrite(name, partial(capture, name), probe, reference, progress) for name in METHODS}
        self.programs = {name: each.program for name, each in done.items()}
        final = done[FORWARD].final.logits.clone()
        keep_rewrites(folder, done, {**reference.tensors(), "final": final})

    def _probe(self, see: Program | None = None, rows: int | None = None) -> ImageProbe:
        request = self.request
        assert request.source.eyes is not None
        count = rows if see is None else see.interface.outputs[0].shape[0]
        assert isinstance(count, int)
        return image_probe(request.source.eyes, count, request.probe, request.limits)

    def _captured(self, weights: HeldWeights, progress: Progress) -> Mapping[str, Program]:
        progress.enter("capture")
        source, spec = self.request.source, self.request.spec
        assert source.eyes is not None
        build = lambda: build_skeleton(lambda: source.build_on(None, attn_implementation="edgec"))  # noqa: E731
        context = max(self.request.limits.context, 8)
        captured: CapturedVisionLanguage = capture_vision_language(build, source.eyes, spec, weights, context)
        return {SEE: captured.see, FORWARD: captured.forward}

    def _rewrite(
        self,
        name: str,
        capture: Callable[[], Program],
        probe: ImageProbe,
        reference: VisionLanguageReference,
        progress: Progress,
    ) -> Rewritten:
        passes = vision_language_passes(self.request.recipe, self.request.limits)[name]
        eager = Stage(REFERENCE, reference.of(name))
        return rewrite(capture, eager, group_exact_passes(passes), self._measure(name, probe, reference), progress)

    def _measure(self, name: str, probe: ImageProbe, reference: VisionLanguageReference) -> Measure:
        recipe, trained = self.request.recipe, self.request.source.trained
        run = partial(run_method, name=name, probe=probe, reference=reference)
        if name == FORWARD:
            return replace(decoder_measure(self.request.probe, recipe, trained), run=run, layers=no_layers)
        quality = partial(quality_rung, budget=module_budget(recipe), gated=trained)
        return Measure(
            run=run,
            lowering=lambda before, after: _sized(lowering_rung(before, after)),
            quality=lambda before, after: _sized(quality(before, after)),
            layers=no_layers,
        )

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the last graphs; leave the artifact and its facts in ``folder``."""
        programs = self.programs or self._rewrite_again(progress)
        lower_to_folder(programs, self.request, folder, progress)
        self.programs = None

    def _rewrite_again(self, progress: Progress) -> Mapping[str, Program]:
        """Rewrite without measuring, for an export that was interrupted after its rungs were measured."""
        captured = self._captured(hold_weights(self.request.source), progress)
        passes = vision_language_passes(self.request.recipe, self.request.limits)
        return {name: run_passes(captured[name], passes[name], in_place=True) for name in METHODS}

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor]) -> list[Rung]:
        """Execute each method and compare it with its graph, then both of them from the pixels to the logits."""
        reference, methods = VisionLanguageReference.read(logits), ExecutedVisionLanguage(artifact)
        probe, loose = self._probe(rows=len(reference.features)), rounds_values(self.request.recipe)
        seen = methods.features(probe.pixels)
        alone, whole = methods.plan_logits(probe, reference.features), methods.plan_logits(probe, seen)
        rungs = [
            self._lowering(SEE, logits, seen.reshape(1, -1), loose),
            self._lowering(FORWARD, logits, alone, loose),
        ]
        recipe, trained = self.request.recipe, self.request.source.trained
        last = Stage("artifact, from pixels to logits", whole)
        return [*rungs, whole_rung(reference.logits, last, recipe, loose=loose, trained=trained)]

    def _lowering(self, name: str, logits: Mapping[str, Tensor], executed: Tensor, loose: bool) -> Rung:
        final, artifact = Stage("rewritten graph", logits[f"{name}.final"]), Stage("artifact", executed)
        if name == FORWARD:
            return forward_rung(final, artifact, self.request.recipe, loose)
        budget = ladder.ROUNDED_MODULE if loose else ladder.FLOAT_LOWERING
        return named(_sized(lowering_rung(final, artifact, budget, rounded=loose, note=EXECUTED)), name)


def refuse_windows(request: ExportRequest) -> None:
    """Refuse a context beyond a sliding window where rows see rows after them: the window would begin too late.

    Raises:
        InputError: E660.
    """
    eyes, context = request.source.eyes, request.limits.context
    windows = [layer.window for layer in request.spec.layers if layer.window and layer.window < context]
    if eyes is not None and eyes.asked.ahead != "none" and windows:
        raise InputError(
            f"A context of {context} tokens is longer than this model's sliding window with images.",
            where="--context",
            why=f"its layers see {min(windows)} tokens back, which edgec cannot measure from the rows of an image yet",
            fix=f"use --context {min(windows)} or less, or export the text part with --task text-generation",
            code="E660",
        )


def _sized(rung: Rung) -> Rung:
    """A rung about features, which are not distributions over tokens."""
    return rung.model_copy(update={"kl_mean": None, "kl_max": None, "top1_agreement": None})
