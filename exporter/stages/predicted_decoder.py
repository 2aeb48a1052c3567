"""Decoders with a predictor of further tokens on a CPU: the methods forward and draft of one artifact.

tokens -> forward -> logits, hidden states
                               |
next tokens ---------------- draft -> logits of the tokens after, hidden states        a cache of its own

Each method has a ladder. Drafts change the speed of a text and never the text, so what rounding does to them is
reported and not gated; that the artifact computes what its graphs do is gated for both methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from torch import Tensor

from edgec.bundle.checkpoint_matrices import CheckpointMatrix
from edgec.bundle.entry_points import FORWARD_ROWS
from edgec.bundle.findings import Rung
from edgec.bundle.predictor import DRAFT
from edgec.exporter.capture.decoder import build_skeleton
from edgec.exporter.capture.predictor import capture_predictor
from edgec.exporter.parity import ladder
from edgec.exporter.parity.ladder import Stage, executed_budget, lowering_rung, of_method, quality_rung
from edgec.exporter.parity.predictor import PredictorProbe, executed_hidden, reference
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.passes import rounds_values
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.drafts.predictor import Predictor, is_predictors
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.stored_parameters import stored_in
from edgec.exporter.sources.weights.streamed import LoadedWeights
from edgec.exporter.stages.capturing import eager_model
from edgec.exporter.stages.compiled import Rewrite
from edgec.exporter.stages.cpu_methods import lower_to_folder
from edgec.exporter.stages.decoder import DecoderStages, refuse_experts, rewrite_decoder
from edgec.exporter.stages.pass_orders import decoder_passes, predictor_passes
from edgec.exporter.stages.rewriting import Measure, Rewritten, group_exact_passes, rewrite
from edgec.exporter.stages.stored_fates import judge_stored
from edgec.ir.call_plan import call_plan
from edgec.ir.program import Program
from edgec.passes.compress.rounding.stored_integers import record_stored
from edgec.passes.contract import Pass, run_passes
from edgec.passes.draft.fused_hidden import FusedHidden, FusingMatrix
from edgec.passes.draft.hidden_output import HiddenOutput
from edgec.passes.draft.shared_rounding import RoundedModel, SharedRounding

REFERENCE = "transformers float32"
_NOTE = "drafts: the model itself decides what is kept; reported, not gated"
_EXECUTED = "executed by ExecuTorch on this machine"


@dataclass
class PredictedDecoderStages(DecoderStages):
    """The stages of a decoder and its predictor; both rewritten programs stay in memory between them."""

    drafting: Program | None = None

    def passes(self) -> list[Pass]:
        """The passes of forward, in order."""
        request = self.request
        return decoder_passes(request.recipe, request.limits, None, request.calibration, [_hidden(request)])

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Rewrite and measure both methods; leave rungs and outputs in ``folder``."""
        own = self.request.recipe.kernels == "edgec"
        done = rewrite_decoder(self.request, self.passes(), progress, check=None if own else refuse_experts)
        probe = _reference(self.request)
        drafting = _rewritten(self.request, _passes(self.request, done.program), probe, progress)
        self.program, self.drafting = done.program, drafting.program
        others = {"hidden": probe.hidden, "wanted": probe.wanted, "draft.final": drafting.final.logits}
        rungs, stored = (*done.rungs, *drafting.rungs), _with_predictors(done.stored, drafting.program)
        replace(done, rungs=rungs, stored=stored).save(folder, others)

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower both last graphs; leave the artifact and its facts in ``folder``."""
        forward = self.program or self.rewrite_unmeasured(progress)
        lower_to_folder(
            {FORWARD_ROWS: forward, DRAFT: self.drafting or self._again(forward)}, self.request, folder, progress
        )
        self.program = self.drafting = None

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor], progress: Progress) -> list[Rung]:
        """Execute forward as any decoder, draft on the reference's hidden states, then both after each other."""
        request, probe = self.request, _kept(self.request, logits)
        rungs = super().verify(artifact, rewrite, logits, progress)
        loose = rounds_values(request.recipe)
        budget = executed_budget(request.recipe, rounded=loose, noise=rewrite.noise, multiple=ladder.ALONE)
        alone = Stage("artifact", probe.executed(artifact, probe.hidden))
        final = Stage("rewritten graph", logits["draft.final"])
        lowering = of_method(lowering_rung(final, alone, budget, rounded=loose, note=_EXECUTED), DRAFT)
        hidden = executed_hidden(artifact, request.probe)
        whole = Stage("artifact, from tokens to drafts", probe.executed(artifact, hidden))
        return [*rungs, lowering, _whole_rung(probe.wanted, whole, request)]

    def _again(self, forward: Program) -> Program:
        """The predictor's last graph, rewritten without measuring: an interrupted export goes on with it."""
        return run_passes(_capture(self.request), _passes(self.request, forward), in_place=True)


def _with_predictors(stored: tuple[CheckpointMatrix, ...], drafting: Program) -> tuple[CheckpointMatrix, ...]:
    """The fates of a checkpoint's matrices with those that the predictor alone reads."""
    known = {matrix.name for matrix in stored}
    return (*stored, *(matrix for matrix in judge_stored(drafting, half=False) if matrix.name not in known))


def _predictor(request: ExportRequest) -> Predictor:
    assert request.predictor is not None
    return request.predictor


def _hidden(request: ExportRequest) -> Pass:
    """What gives the predictor the hidden states that it goes on from."""
    predictor = _predictor(request)
    if predictor.matrix is None:
        return HiddenOutput()
    return FusedHidden(predictor.taps, FusingMatrix(predictor.matrix, predictor.name))


def _passes(request: ExportRequest, forward: Program) -> list[Pass]:
    predictor = _predictor(request)
    names = tuple(name for name in predictor.weights.names() if not is_predictors(name, predictor.name))
    return predictor_passes(
        request.recipe, request.limits, SharedRounding(names, RoundedModel(forward.graph, FORWARD_ROWS))
    )


def _reference(request: ExportRequest) -> PredictorProbe:
    """What transformers' own model and its predictor compute on the probe."""
    assert request.source.weights is not None
    model, predictor = eager_model(request.source, LoadedWeights(request.source.weights)), _predictor(request)
    one_layer = predictor.build_on("cpu", "eager")
    put_weights(one_layer, predictor.weights, as_stored=True)
    return reference(model, predictor, one_layer.eval(), request.probe, request.limits)


def _kept(request: ExportRequest, logits: Mapping[str, Tensor]) -> PredictorProbe:
    """The probe again, from the tensors that ``rewrite`` stored."""
    tokens, limits = request.probe.tokens[1:], request.limits
    plan = call_plan(len(tokens), limits.prefill_chunk, limits.logit_rows)
    return PredictorProbe(tokens, plan, logits["hidden"], logits["wanted"])


def _capture(request: ExportRequest) -> Program:
    """Trace the predictor and bind its weights."""
    predictor = _predictor(request)
    skeleton = build_skeleton(lambda: predictor.build_on(None, "edgec"))
    program = capture_predictor(skeleton, predictor.spec, predictor.weights, max(request.limits.context, 8))
    record_stored(program.graph, stored_in(predictor.weights, skeleton.aliases))
    return program


def _rewritten(request: ExportRequest, passes: list[Pass], probe: PredictorProbe, progress: Progress) -> Rewritten:
    method = probe.method
    quality = partial(quality_rung, budget={}, gated=False, note=_NOTE)
    measure = Measure(run=method.run, lowering=lowering_rung, quality=quality, layers=method.layers, method=DRAFT)
    eager = Stage(REFERENCE, probe.wanted)
    return rewrite(partial(_capture, request), eager, group_exact_passes(passes), measure, progress)


def _whole_rung(wanted: Tensor, whole: Stage, request: ExportRequest) -> Rung:
    """Both methods after each other, against transformers' own model."""
    original = Stage(REFERENCE, wanted)
    if rounds_values(request.recipe):
        return quality_rung(original, whole, {}, gated=False, note=f"{_EXECUTED}; {_NOTE}")
    return lowering_rung(original, whole, {**ladder.WHOLE_LOWERING, **request.recipe.budgets}, note=_EXECUTED)
