"""Decoders whose caller holds keys and values that grow from call to call: one method of varying length.

cached program -> growing_cache -> model(input_ids, attention_mask, position_ids, past_key_values...) -> backend
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from edgec.backends.forms import Form
from edgec.backends.genai.model import CHUNK, MODEL
from edgec.bundle.findings import Rung
from edgec.exporter.parity import ladder
from edgec.exporter.parity.execution_noise import noise_note
from edgec.exporter.parity.ladder import Stage, lowering_rung
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.passes import rounds_weights
from edgec.exporter.stages.capturing import capture_request, stream_weights
from edgec.exporter.stages.decoder import rewrite_decoder
from edgec.exporter.stages.pass_orders import static_decoder_passes
from edgec.exporter.stages.rewriting import Rewritten, with_floats
from edgec.exporter.stages.static_decoder import StaticDecoderStages, lowering_budget, refuse_unfixed
from edgec.exporter.stages.static_lowering import lower_methods
from edgec.ir.growing_cache import PAST, GrowingMethods
from edgec.ir.program import Program
from edgec.ir.static_methods import named_results, run_static
from edgec.passes.contract import Pass, run_pass, run_passes
from edgec.passes.kv.growing_cache import GrowingCache, refuse_ungrouped

STAGE = "growing cache"


@dataclass
class GrowingDecoderStages(StaticDecoderStages):
    """The stages of such a decoder; its program stays in memory between them, as the only method."""

    def passes(self) -> list[Pass]:
        """The passes up to the caches, in order; every layer runs for all tokens, since its operator takes as many."""
        recipe, limits = self.request.recipe, self.request.limits
        return static_decoder_passes(recipe, limits, self.request.calibration, limits.context, skips=False)

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Run the reference, capture the model, apply its passes; leave rungs and logits."""
        check = partial(refuse_unexpressed, form=self.request.form)
        done = rewrite_decoder(self.request, self.passes(), progress, check=check)
        self.methods = {MODEL: self._with_growing_cache(done.program)}
        after = Stage(STAGE, self._executed(self.methods[MODEL]))
        rung = self._same(done, after)
        ladder.gate([rung])
        replace(done, rungs=(*done.rungs, rung), final=after).save(folder)

    def _same(self, done: Rewritten, after: Stage) -> Rung:
        """The graph with growing caches against the one before; sums in another order may round inputs elsewhere."""
        if not rounds_weights(self.request.recipe):
            return lowering_rung(done.final, after)
        untrained = not self.request.source.trained
        budget = lowering_budget(self.request.recipe, half=False, untrained=untrained, noise=done.noise)
        return lowering_rung(done.final, after, budget, rounded=True, note=noise_note(done.noise))

    def _with_growing_cache(self, program: Program) -> Program:
        return run_pass(program, GrowingCache(self.request.limits.context))

    def _executed(self, program: Program) -> Tensor:
        """The logits of the graph over the probe."""
        probe, prefix = self.request.probe, PAST.partition(".")[0]
        held = [tensor for tensor in program.interface.inputs if tensor.name.startswith(prefix)]
        shapes: Mapping[str, Any] = {tensor.name: (tensor.shape[1], tensor.shape[3]) for tensor in held}
        methods = GrowingMethods(partial(named_results, program), shapes, CHUNK)
        return run_static(methods, probe.tokens, probe.plan)

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the method; leave the artifact and its facts in ``folder``."""
        methods = self.methods or self._made_again(progress)
        lower_methods(self.request, methods, folder, progress, {})
        self.methods = {}

    def _made_again(self, progress: Progress) -> Mapping[str, Program]:
        """Make the method without measuring, for an export that was interrupted after its rungs were measured."""
        program = capture_request(self.request, stream_weights(self.request.source), progress)
        program = with_floats(run_passes(program, self.passes(), in_place=True))
        return {MODEL: self._with_growing_cache(program)}


def refuse_unexpressed(program: Program, form: Form) -> None:
    """Refuse what the layout cannot express, where only the captured program tells.

    Raises:
        InputError: E855; E513, E527, E528.
    """
    refuse_unfixed(program, form)
    refuse_ungrouped(program)
