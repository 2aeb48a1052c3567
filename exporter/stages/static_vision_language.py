"""Vision-language models for NPUs: a function for one tile beside the static methods of the decoder, in one artifact.

tile -> see -> features                                                              an encoder, as every other one
|
tokens, start, last + features, seen in the image's place -> prefill, decode -> logits    over the same states

The decoder is rewritten and measured with a varying length first, then as methods of fixed shapes, as in
``static_decoder.py``; see is measured as a module. At the end the artifact runs from the pixels to the logits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from torch import Tensor

from edgec.backends.static_artifact import backend_of
from edgec.bundle.entry_points import SEE, VISION_LANGUAGE_METHODS, Limits
from edgec.bundle.findings import Rung
from edgec.exporter.parity import ladder
from edgec.exporter.parity.divergence import call_layers, method_layers
from edgec.exporter.parity.held_matrices import hold_matrices
from edgec.exporter.parity.known_text import knows_tokens
from edgec.exporter.parity.ladder import Stage, lowering_rung, of_method, quality_rung
from edgec.exporter.parity.outputs import worst_output_rung
from edgec.exporter.parity.rows_and_text import ExecutedRows, ProbedRows
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.passes import rounds_weights
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.weights import HeldWeights
from edgec.exporter.stages.adapted_methods import every_function, graph_methods
from edgec.exporter.stages.compiled import Rewrite
from edgec.exporter.stages.cpu_methods import FORWARD
from edgec.exporter.stages.decoder import quality_budget, refuse_experts
from edgec.exporter.stages.pass_orders import static_decoder_passes, static_see_passes
from edgec.exporter.stages.rewriting import Rewritten, locate_layer
from edgec.exporter.stages.several_methods import (
    REFERENCE,
    Programs,
    SeveralMethodsKind,
    keep_rewritten,
    rewrite_again,
    rewrite_methods,
)
from edgec.exporter.stages.static_decoder import STAGE, UNTRAINED_NOTE, lowering_budget
from edgec.exporter.stages.static_lowering import lower_methods
from edgec.exporter.stages.vision_language import begin, capture, image_probe_of, read_probed
from edgec.ir.program import Program
from edgec.ir.static_methods import PREFILL, Methods, first_chunk, run_static
from edgec.passes.contract import Pass
from edgec.passes.kv.recurrent_states import refuse_unheld_states
from edgec.passes.static.static_states import refuse_unwritten


@dataclass
class StaticVisionLanguageStages:
    """The stages of a vision-language model with methods of fixed shapes, which stay in memory between them."""

    request: ExportRequest
    methods: Mapping[str, Program] = field(default_factory=dict)

    @cached_property
    def kind(self) -> SeveralMethodsKind:
        """What is particular to this kind of model, before its shapes are fixed."""
        return SeveralMethodsKind("pixels", begin, self._capture, read_probed, self._passes)

    def _capture(self, request: ExportRequest, weights: HeldWeights, progress: Progress) -> Programs:
        """Capture both methods.

        Raises:
            InputError: E513, E527, E528, the decoder has what fixed shapes cannot hold.
        """
        programs = capture(request, weights, progress)
        refuse_experts(programs[FORWARD])
        refuse_unheld_states(programs[FORWARD], "edgec", request.form.unheld)
        refuse_unwritten(programs[FORWARD])
        return programs

    def _passes(self, recipe: Recipe, limits: Limits) -> Mapping[str, list[Pass]]:
        text = static_decoder_passes(recipe, limits, ahead=self.request.sees_ahead)
        return {SEE: static_see_passes(recipe, self.request.form), FORWARD: text}

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Run the reference, rewrite both methods, fix the decoder's shapes; leave rungs and outputs in ``folder``."""
        done, probed = rewrite_methods(self.request, self.kind, progress)
        assert isinstance(probed, ProbedRows)
        self.methods = self._fixed({name: each.program for name, each in done.items()})
        after = Stage(STAGE, self._run(graph_methods(hold_matrices(self._text_methods), ""), probed))
        rung = of_method(lowering_rung(done[FORWARD].final, after), FORWARD)
        ladder.gate([rung if rung.passed else self._locate(rung, done[FORWARD], probed)])
        text = replace(done[FORWARD], rungs=(*done[FORWARD].rungs, rung), final=after)
        keep_rewritten(folder, {**done, FORWARD: text}, probed)

    def _fixed(self, programs: Mapping[str, Program]) -> dict[str, Program]:
        """The functions of the artifact: see, which has fixed shapes, and the decoder's static methods."""
        return {SEE: programs[SEE], **every_function({"": programs[FORWARD]}, self.request)}

    @property
    def _text_methods(self) -> dict[str, Program]:
        return {name: program for name, program in self.methods.items() if name != SEE}

    def _run(self, methods: Methods, probed: ProbedRows) -> Tensor:
        """The logits of the text after transformers' own rows."""
        probe = probed.probe
        return run_static(methods, probe.tokens, probe.plan, probe.placed(probed.reference.in_text))

    def _locate(self, rung: Rung, done: Rewritten, probed: ProbedRows) -> Rung:
        """Add to a failed rung the first layer where the methods differ from the program they were made from."""
        probe, calls = probed.probe, probed.methods()[FORWARD].calls(done.program.interface)
        placed = probe.placed(probed.reference.in_text)
        fixed = method_layers(self._text_methods, probe.tokens, probe.plan, placed)
        return locate_layer(call_layers(done.program, calls), fixed, rung)

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the functions; leave the artifact and its facts in ``folder``."""
        if not self.methods:
            self.methods = self._fixed(rewrite_again(self.request, self.kind, progress))
        lower_methods(self.request, self.methods, folder, progress, self._calls(), groups=self._groups())
        self.methods = {}

    def _groups(self) -> dict[str, dict[str, Program]]:
        return {SEE: {SEE: self.methods[SEE]}, FORWARD: self._text_methods}

    def _calls(self) -> dict[str, list[list[Tensor]]]:
        """Calls on which values are measured against float16's range: the probe's tile, and its first chunk."""
        rows = self.methods[SEE].interface.outputs[0].shape
        assert self.request.source.eyes is not None
        probe = image_probe_of(self.request, int(rows[0]))  # type: ignore[arg-type]
        features = self.methods[SEE].graph(*probe.whole)
        chunk = first_chunk(self.methods[PREFILL], probe.tokens, probe.placed(features))
        return {SEE: [list(probe.whole)], PREFILL: [chunk]}

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor]) -> list[Rung]:
        """Execute each function and compare it with its graph, then all of them together with the float model."""
        probed = read_probed(self.request, logits)
        methods = ExecutedRows.of_form(artifact, VISION_LANGUAGE_METHODS, self.request.form)
        executed = probed.executed(methods)
        see = worst_output_rung(
            Stage("rewritten graph", logits[f"{SEE}.final"]),
            Stage("artifact", executed.alone[SEE]),
            probed.methods()[SEE].sizes,
            partial(lowering_rung, budget=self._see_budget, rounded=True, note=self._note),
        )
        final = Stage(rewrite.final, logits[f"{FORWARD}.final"])
        text = self._text_rung(final, Stage("artifact", executed.alone[FORWARD]), probed)
        whole = Stage("artifact, from pixels to logits", executed.whole)
        return [of_method(see, SEE), of_method(text, FORWARD), self._whole_rung(probed.reference.logits, whole)]

    @property
    def _note(self) -> str:
        return backend_of(self.request.form.module).EXECUTED_BY

    @property
    def _see_budget(self) -> Mapping[str, float]:
        if rounds_weights(self.request.recipe):
            return ladder.ROUNDED_MODULE
        return ladder.HALF_MODULE if self.request.form.half else ladder.FLOAT_LOWERING

    def _text_rung(self, final: Stage, executed: Stage, probed: ProbedRows) -> Rung:
        """The static methods against their graphs; random weights, which let rounding grow, have a wider budget."""
        form, recipe = self.request.form, self.request.recipe
        knows = knows_tokens(probed.reference.logits, probed.probe.tokens, probed.probe.plan, probed.probe.after_rows)
        untrained = not (self.request.source.trained and (knows or self.request.probe.source != "text"))
        budget = lowering_budget(recipe, half=form.half, untrained=untrained)
        loose = budget == ladder.UNTRAINED_HALF_LOWERING
        note = "; ".join(filter(None, [self._note, UNTRAINED_NOTE if loose else ""]))
        return lowering_rung(final, executed, budget, rounded=True, note=note)

    def _whole_rung(self, wanted: Tensor, whole: Stage) -> Rung:
        """The artifact, one function after the other, against transformers' own model."""
        original, recipe = Stage(REFERENCE, wanted), self.request.recipe
        if rounds_weights(recipe):
            gated = self.request.source.trained
            return quality_rung(original, whole, quality_budget(recipe), gated=gated, note=self._note)
        budget = ladder.HALF_LOWERING if self.request.form.half else ladder.WHOLE_LOWERING
        return lowering_rung(original, whole, {**budget, **recipe.budgets}, rounded=True, note=self._note)
