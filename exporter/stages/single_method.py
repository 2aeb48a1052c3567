"""Decoders whose artifact has one method of varying length over its own caches, for a phone's GPU.

captured graph -> passes -> backend -> artifact of one method ``forward``, which gives the last token's logits
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from edgec.backends.mlx.operators import refuse_unspoken
from edgec.backends.static_artifact import StaticBackend, backend_of
from edgec.bundle.entry_points import FORWARD
from edgec.bundle.findings import Rung
from edgec.exporter.parity.execution_noise import noise_note
from edgec.exporter.parity.known_text import knows_text
from edgec.exporter.parity.ladder import Stage, lowering_rung
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.passes import rounds_weights
from edgec.exporter.request import ExportRequest
from edgec.exporter.stages.capturing import capture_request, stream_weights
from edgec.exporter.stages.compiled import Rewrite
from edgec.exporter.stages.decoder import artifact_quality, rewrite_decoder
from edgec.exporter.stages.pass_orders import single_method_passes
from edgec.exporter.stages.rewriting import with_floats
from edgec.exporter.stages.static_decoder import lowering_budget, refuse_unfixed
from edgec.exporter.stages.static_lowering import lower_methods
from edgec.ir.program import Effect, Program
from edgec.ir.static_methods import run_static
from edgec.passes.contract import Pass, run_passes


@dataclass
class SingleMethodStages:
    """The stages of such a decoder; its program stays in memory between them."""

    request: ExportRequest
    program: Program | None = None

    @property
    def backend(self) -> StaticBackend:
        """The backend that lowers and executes this decoder."""
        return backend_of(self.request.form.module)

    def passes(self) -> list[Pass]:
        """The passes, in order."""
        return single_method_passes(self.request.recipe, self.request.limits, self.request.calibration)

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Run the reference, capture the model and apply its passes; leave rungs and logits in ``folder``."""
        done = rewrite_decoder(self.request, self.passes(), progress, check=self._check)
        self.program = done.program
        done.save(folder)

    def _check(self, program: Program) -> None:
        refuse_unfixed(program, self.request.form)
        refuse_unspoken(program)

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the program; leave the artifact and its facts in ``folder``."""
        program = self.program or self._rewrite_again(progress)
        tokens = self.request.probe.tokens[: self.request.limits.prefill_chunk]
        positions = torch.arange(len(tokens))
        call = [torch.tensor([list(tokens)]), positions, positions[-1:]]
        lower_methods(self.request, {FORWARD: program}, folder, progress, {FORWARD: [call]})
        self.program = None

    def _rewrite_again(self, progress: Progress) -> Program:
        """The program without measuring, for an export that was interrupted after its rungs were measured."""
        program = capture_request(self.request, stream_weights(self.request.source), progress)
        return with_floats(run_passes(program, self.passes(), in_place=True))

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor], progress: Progress) -> list[Rung]:
        """Execute the artifact and compare it with the graph it was made from, and with the float model."""
        request, reference = self.request, Stage(rewrite.reference, logits["reference"])
        final = Stage(rewrite.final, logits["final"])
        made = run_static(self.backend.execute(artifact), request.probe.tokens, request.probe.plan)
        after = Stage("artifact", made, Effect.EXACT)
        untrained = not (request.source.trained and knows_text(reference.logits, request.probe))
        budget = lowering_budget(request.recipe, half=request.form.half, untrained=untrained, noise=rewrite.noise)
        note = "; ".join(filter(None, (self.backend.EXECUTED_BY, noise_note(rewrite.noise))))
        rungs = [lowering_rung(final, after, budget, rounded=True, note=note)]
        if rounds_weights(request.recipe):
            rungs.append(artifact_quality(reference, final, after, rewrite.further, request))
        return rungs
