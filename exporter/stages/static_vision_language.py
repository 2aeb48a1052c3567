"""Vision-language models for NPUs: a function for one tile beside the static methods of the decoder, in one artifact.

tile -> see -> features                                                              an encoder, as every other one
|
tokens, start, last + features, seen in the image's place -> prefill, decode -> logits    over the same states
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from edgec.bundle.entry_points import FORWARD, VISION_ENCODER, VISION_LANGUAGE_METHODS, Limits
from edgec.exporter.parity.probed_method import Executed, Probed
from edgec.exporter.parity.rows_and_text import ExecutedRows, ProbedRows
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.weights.streamed import LoadedWeights
from edgec.exporter.stages.pass_orders import static_decoder_passes, static_vision_passes
from edgec.exporter.stages.several_methods import Programs, SeveralMethodsKind
from edgec.exporter.stages.static_decoder import refuse_unfixed
from edgec.exporter.stages.static_lowering import MethodCalls
from edgec.exporter.stages.static_several_methods import FixedText, StaticSeveralMethodsStages
from edgec.exporter.stages.vision_language import begin, capture, image_probe_of, read_probed
from edgec.ir.static_methods import PREFILL, first_chunk
from edgec.passes.contract import Pass


@dataclass
class StaticVisionLanguageStages(StaticSeveralMethodsStages):
    """The stages of a vision-language model with methods of fixed shapes, which stay in memory between them."""

    @cached_property
    def kind(self) -> SeveralMethodsKind:
        """What is particular to this kind of model, before its shapes are fixed."""
        return SeveralMethodsKind("pixels", begin, self._capture, read_probed, self._passes)

    def _capture(self, request: ExportRequest, weights: LoadedWeights, progress: Progress) -> Programs:
        """Capture both methods.

        Raises:
            InputError: E513, E527, E528, the decoder has what fixed shapes cannot hold.
        """
        programs = capture(request, weights, progress)
        refuse_unfixed(programs[FORWARD], request.form)
        return programs

    def _passes(self, recipe: Recipe, limits: Limits) -> Mapping[str, list[Pass]]:
        text = static_decoder_passes(recipe, limits, held=self.request.slots)
        return {VISION_ENCODER: static_vision_passes(recipe, self.request.form), FORWARD: text}

    def text(self, probed: Probed) -> FixedText:
        """The text after transformers' own rows."""
        assert isinstance(probed, ProbedRows)
        probe = probed.probe
        placed = probe.placed(probed.reference.in_text)
        return FixedText(probe.tokens, probe.plan, placed, begins=probe.after_rows)

    def calls(self) -> MethodCalls:
        """The probe's tile, and its first chunk."""
        rows = self.methods[VISION_ENCODER].interface.outputs[0].shape
        assert self.request.source.vision is not None
        probe = image_probe_of(self.request, int(rows[1]))  # type: ignore[arg-type]
        features = self.methods[VISION_ENCODER].graph(*probe.whole)[0]
        chunk = first_chunk(self.methods[PREFILL], probe.tokens, probe.placed(features))
        return {VISION_ENCODER: [list(probe.whole)], PREFILL: [chunk]}

    def executed(self, artifact: Path, probed: Probed) -> Executed:
        """Execute both functions, each alone and from the pixels to the logits."""
        assert isinstance(probed, ProbedRows)
        return probed.executed(ExecutedRows.of_form(artifact, VISION_LANGUAGE_METHODS, self.request.form))
