"""The stages of a decoder with static methods; the captured and rewritten programs stay in memory between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.backends.forms import Form
from edgec.backends.static_artifact import StaticBackend, backend_of
from edgec.bundle.manifest import Rung
from edgec.exporter.parity import ladder
from edgec.exporter.parity.ladder import Stage, lowering_rung
from edgec.exporter.progress import Progress
from edgec.exporter.sources.weights import HeldWeights
from edgec.exporter.stages import decoder, static_decoder
from edgec.exporter.stages.compiled import Rewrite, save_facts, save_rewrite
from edgec.exporter.stages.lint import findings
from edgec.exporter.stages.lowering import lowered
from edgec.exporter.stages.static_decoder import graph_stage, shared_passes, static_methods
from edgec.exporter.stages.static_facts import static_facts
from edgec.exporter.stages.static_weights import static_weight_facts
from edgec.ir.program import Program
from edgec.ir.static_methods import PREFILL, first_chunk
from edgec.passes.contract import run_passes

if TYPE_CHECKING:
    from edgec.exporter.pipeline import Request


@dataclass
class StaticDecoderStages:
    """Rewrite, lower and verify for one request."""

    request: Request
    methods: Mapping[str, Program] = field(default_factory=dict)

    @property
    def form(self) -> Form:
        """What the artifact looks like."""
        return self.request.form

    @property
    def backend(self) -> StaticBackend:
        """What lowers and executes it."""
        return backend_of(self.form.module)

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Reference, capture, the passes that all methods share, then each method's; leaves rungs and logits."""
        request = self.request
        assert request.source.weights is not None
        weights = HeldWeights(request.source.weights)
        progress.enter("reference")
        eager = decoder.eager_stage(request.source, weights, request.probe)
        passes = shared_passes(request.recipe, request.limits, request.calibration)
        capture = partial(decoder.captured, request, weights, progress)
        trained = request.source.trained
        done = decoder.rewrite(capture, eager, passes, request.probe, request.recipe, trained, progress)
        self.methods = static_methods(done.program, request.limits, self.form)
        after = graph_stage(self.methods, request.probe)
        rungs = (*done.rungs, lowering_rung(done.final, after))
        ladder.gate(rungs)
        names = Rewrite(rungs=list(rungs), reference=done.reference.name, final=after.name)
        save_rewrite(folder, names, {"final": after.logits, "reference": done.reference.logits})

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the methods; leaves the artifact and its facts."""
        methods = self.methods or self._again(progress)
        progress.enter("lower")
        weights = static_weight_facts(methods, self.form.half)
        chunk = first_chunk(methods[PREFILL], self.request.probe.tokens)
        found = findings(methods, weights, {PREFILL: [chunk]}) if self.form.neural_engine else []
        path = folder / self.form.artifact
        done = lowered(self.request, methods, path, lambda name, part, total: progress.step(part / total, name))
        save_facts(folder, static_facts(methods, done, self.request.limits, weights, found))
        self.methods = {}

    def _again(self, progress: Progress) -> Mapping[str, Program]:
        """The methods of an export that was interrupted after its rungs were measured."""
        request = self.request
        assert request.source.weights is not None
        program = decoder.captured(request, HeldWeights(request.source.weights), progress)
        passes = shared_passes(request.recipe, request.limits, request.calibration)
        return static_methods(run_passes(program, passes, in_place=True), request.limits, self.form)

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Any]) -> list[Rung]:
        """Execute the artifact and compare it with the graphs it was made from, and with the float model."""
        request, backend = self.request, self.backend
        if not self.form.executed:
            return []
        final, reference = Stage(rewrite.final, logits["final"]), Stage(rewrite.reference, logits["reference"])
        how = (request.probe, request.recipe, request.source.trained, backend.EXECUTED_BY)
        return static_decoder.artifact_rungs(backend.execute(artifact), final, reference, *how, half=self.form.half)
