"""Encoder-decoders on a CPU: the methods encode, cross and forward of one artifact, with a ladder for each.

    source -> encode -> states -> cross -> keys and values of the encoder, once for a source
                                            |
    tokens, positions ----------------> forward -> logits                 prefill and decode, as every decoder here

Each method's graph is compared with transformers' own model on the same inputs, each executed method with its graph;
at the end the artifact runs as a whole, from the source to the logits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from torch import Tensor

from edgec.bundle.manifest import ENCODER_DECODER_METHODS, Rung
from edgec.exporter.capture.decoder import build_skeleton
from edgec.exporter.capture.encoder_decoder import CapturedEncoderDecoder, capture_encoder_decoder
from edgec.exporter.parity import ladder
from edgec.exporter.parity.encoder_decoder import (
    EncoderDecoderReference,
    ExecutedEncoderDecoder,
    SourceProbe,
    eager_reference,
    run_method,
    source_probe,
)
from edgec.exporter.parity.ladder import Stage, lowering_rung, quality_rung
from edgec.exporter.parity.outputs import worst_output_rung
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.passes import rounds_values
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.weights import HeldWeights
from edgec.exporter.stages.capturing import hold_weights
from edgec.exporter.stages.compiled import Rewrite
from edgec.exporter.stages.cpu_methods import lower_to_folder
from edgec.exporter.stages.decoder import decoder_measure
from edgec.exporter.stages.module import module_budget
from edgec.exporter.stages.pass_orders import encoder_decoder_passes
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

METHODS = ENCODER_DECODER_METHODS
ENCODE, CROSS, _ = METHODS


@dataclass
class EncoderDecoderStages:
    """The stages of an encoder-decoder; its rewritten programs stay in memory between them."""

    request: ExportRequest
    programs: Mapping[str, Program] | None = None

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Run the reference, capture the model and apply its passes; leave rungs and outputs in ``folder``."""
        weights = hold_weights(self.request.source)
        progress.enter("reference")
        probe = self._probe()
        reference = eager_reference(self.request.source, weights, probe, self.request.probe)
        captured = dict(self._captured(weights, progress))
        weights.let_go()

        def capture(name: str) -> Program:
            """The captured program, which its passes use up; traced again where a failure has to be located."""
            return captured.pop(name, None) or self._captured(weights, progress)[name]

        done = {name: self._rewrite(name, partial(capture, name), probe, reference, progress) for name in METHODS}
        self.programs = {name: each.program for name, each in done.items()}
        keep_rewrites(folder, done, reference.tensors())

    def _probe(self) -> SourceProbe:
        assert self.request.source.reads is not None
        return source_probe(self.request.source.reads, self.request.probe, self.request.spec.vocab_size)

    def _rewrite(
        self,
        name: str,
        capture: Callable[[], Program],
        probe: SourceProbe,
        reference: EncoderDecoderReference,
        progress: Progress,
    ) -> Rewritten:
        passes = encoder_decoder_passes(self.request.recipe, self.request.limits)[name]
        measure = self._measure(name, probe, reference)
        eager = Stage(REFERENCE, reference.of(name))
        return rewrite(capture, eager, group_exact_passes(passes), measure, progress)

    def _captured(self, weights: HeldWeights, progress: Progress) -> Mapping[str, Program]:
        progress.enter("capture")
        source, spec = self.request.source, self.request.spec
        assert source.reads is not None
        build = lambda: build_skeleton(lambda: source.build_on(None, attn_implementation="edgec"))  # noqa: E731
        captured: CapturedEncoderDecoder = capture_encoder_decoder(
            build, source.reads, spec, weights, self.request.limits.context
        )
        return {ENCODE: captured.encode, CROSS: captured.cross, FORWARD: captured.forward}

    def _measure(self, name: str, probe: SourceProbe, reference: EncoderDecoderReference) -> Measure:
        recipe, trained = self.request.recipe, self.request.source.trained
        run = partial(run_method, name=name, probe=probe, reference=reference, decoder=self.request.probe)
        if name == FORWARD:
            return replace(decoder_measure(self.request.probe, recipe, trained), run=run, layers=no_layers)
        sizes = reference.sizes(name)
        quality = partial(quality_rung, budget=module_budget(recipe), gated=trained)
        return Measure(
            run=run,
            lowering=lambda before, after: worst_output_rung(before, after, sizes, lowering_rung),
            quality=lambda before, after: worst_output_rung(before, after, sizes, quality),
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
        passes = encoder_decoder_passes(self.request.recipe, self.request.limits)
        return {name: run_passes(captured[name], passes[name], in_place=True) for name in METHODS}

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor]) -> list[Rung]:
        """Execute each method and compare it with its graph, then all of them from the source to the logits."""
        probe, decoder, reference = self._probe(), self.request.probe, EncoderDecoderReference.read(logits)
        methods, loose = ExecutedEncoderDecoder(artifact), rounds_values(self.request.recipe)
        alone = {name: methods.alone(name, probe, reference, decoder) for name in METHODS}
        rungs = [self._lowering(name, logits, value, reference, loose) for name, value in alone.items()]
        logits_after = methods.plan_logits(methods.memory(probe.sources[0]), decoder)
        whole = Stage("artifact, from source to logits", logits_after)
        recipe, trained = self.request.recipe, self.request.source.trained
        return [*rungs, whole_rung(reference.of(FORWARD), whole, recipe, loose=loose, trained=trained)]

    def _lowering(
        self, name: str, logits: Mapping[str, Tensor], executed: Tensor, reference: EncoderDecoderReference, loose: bool
    ) -> Rung:
        final, artifact = Stage("rewritten graph", logits[f"{name}.final"]), Stage("artifact", executed)
        if name == FORWARD:
            return forward_rung(final, artifact, self.request.recipe, loose)
        budget = ladder.ROUNDED_MODULE if loose else ladder.FLOAT_LOWERING
        compare = partial(lowering_rung, budget=budget, rounded=loose, note=EXECUTED)
        return named(worst_output_rung(final, artifact, reference.sizes(name), compare), name)
