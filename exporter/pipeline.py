"""The order of the stages, in one place.

    resolve -> reference -> capture -> rewrite -> lower -> verify -> bundle

Each finished stage is kept in the stage cache under the hash of its inputs, so an interrupted export continues where it
stopped. Capture is not kept: it takes seconds and holds no allocated weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from edgec.bundle.checkpoint_matrices import CheckpointMatrix
from edgec.bundle.entry_points import FORWARD
from edgec.bundle.findings import Rung
from edgec.errors import BudgetError
from edgec.exporter.parity import ladder
from edgec.exporter.parity.emulated import EMULATED, FIX, emulated_rung
from edgec.exporter.parity.execution_noise import Noise
from edgec.exporter.parity.sample import Sample, artifact_text
from edgec.exporter.progress import Progress
from edgec.exporter.provenance import EXECUTION, source_digest
from edgec.exporter.report.reading import NextTokens, next_tokens
from edgec.exporter.request import ExportRequest, request_inputs
from edgec.exporter.runners.rungs import other_runtime_rungs
from edgec.exporter.runners.texts import FIX as RUNNER_FIX
from edgec.exporter.stage_cache import StageCache, stage_key
from edgec.exporter.stages.artifact import step_of
from edgec.exporter.stages.compiled import Facts, load_facts, load_rewrite
from edgec.exporter.stages.protocol import LOWERING, stage_module, stages_of
from edgec.free_memory import few_collections, map_large_blocks, return_free_memory
from edgec.ir.call_plan import compared_positions


@dataclass(frozen=True)
class CompiledModel:
    """A verified artifact, ready to be bundled.

    Attributes:
        artifact: its file or folder.
        facts: what the manifest says about it.
        rungs: the whole ladder.
        said: what it and the float model say next along the probe, for the report.
        sample: a short text of both, for the report.
        noise: how far two right executions of its last graph differ, where that was measured.
        stored: what became of the matrices that the checkpoint stores as integers.
        judged_on: the inputs that a module was judged on, in words.
        wider: its layers with more bits than the recipe asks for, in words.
    """

    artifact: Path
    facts: Facts
    rungs: tuple[Rung, ...]
    said: NextTokens | None = None
    sample: Sample | None = None
    noise: Noise | None = None
    stored: tuple[CheckpointMatrix, ...] = ()
    judged_on: str = ""
    wider: str = ""


_EXECUTED = ("artifact", f"{FORWARD}: artifact")


@few_collections()
def compile_model(request: ExportRequest, cache: StageCache, progress: Progress) -> CompiledModel:
    """Run every stage between resolve and bundle, or take its result from the cache.

    Raises:
        BudgetError: E201 the ladder, E220 too much of the arithmetic outside the accelerator, E538 the phone's runner
            under the emulator.
        InputError: the model cannot be captured, or a pass is not legal on it.
    """
    map_large_blocks()
    stages = stages_of(request)
    inputs = request_inputs(request, cache)
    rewritten = _stage("rewrite", stages.rewrite, request, inputs, cache, progress)
    lowered = _stage("lower", stages.lower, request, inputs, cache, progress)
    facts, artifact = load_facts(lowered), lowered / request.form.artifact
    check_fallback(facts, request.max_fallback)
    progress.enter("verify")
    rewrite, logits = load_rewrite(rewritten)
    rungs = (*rewrite.rungs, *with_values(stages.verify(artifact, rewrite, logits, progress), facts.largest))
    return_free_memory()
    ladder.gate(rungs)
    if request.emulation.runs:
        progress.step(0.5, EMULATED)
        sizes = (request.limits.context, request.spec.vocab_size)
        rungs = (*rungs, emulated_rung(artifact, request.probe, request.recipe, *sizes, rewrite.noise))
        ladder.gate(rungs, FIX)
    rungs = (*rungs, *other_runtime_rungs(artifact, facts, request, _executed_difference(rungs)))
    ladder.gate(rungs, RUNNER_FIX)
    sample = _sample(request, artifact, rewrite.text)
    said, stored = _said(request, facts, logits), tuple(rewrite.stored)
    return CompiledModel(artifact, facts, rungs, said, sample, rewrite.noise, stored, rewrite.judged_on, rewrite.wider)


def _executed_difference(rungs: Sequence[Rung]) -> float:
    """The largest difference of a logit between an artifact and its own graph, both right executions."""
    return max(
        (rung.max_abs or 0.0 for rung in rungs if rung.stage in _EXECUTED and rung.half == "lowering"), default=0.0
    )


def with_values(rungs: Sequence[Rung], values: str) -> list[Rung]:
    """The rungs, of which the first says how large the artifact's values are, where that is known."""
    return [rung.model_copy(update={"values": values}) if values and not i else rung for i, rung in enumerate(rungs)]


def _sample(request: ExportRequest, artifact: Path, text: Sequence[int]) -> Sample | None:
    """The float model's short text and the artifact's, where the first was written."""
    if not text:
        return None
    start, step = request.sample_start, step_of(artifact, request.form)
    return Sample(start, tuple(text), artifact_text(step, start, request.limits.context))


def _said(request: ExportRequest, facts: Facts, logits: Mapping[str, Tensor]) -> NextTokens | None:
    """What both forms of a decoder say next along the probe, where that is a text."""
    if facts.limits is None or request.tokenizer is None:
        return None
    return next_tokens(request.probe.tokens, compared_positions(request.probe.plan), logits)


def _stage(
    name: str,
    run: Callable[[Path, Progress], None],
    request: ExportRequest,
    inputs: Mapping[str, Any],
    cache: StageCache,
    progress: Progress,
) -> Path:
    """The folder of a finished stage: from the cache, or by running it."""
    key = stage_key({**inputs, "stage": name, "edgec": stage_digest(name, request)})
    known = cache.get(key)
    if known is not None:
        progress.enter(name, cached=True)
        return known
    folder = cache.put(key, lambda place: run(place, progress))
    return_free_memory()
    return folder


def stage_digest(stage: str, request: ExportRequest) -> str:
    """A digest of the source that a stage's result depends on; only lowering depends on backends."""
    own = stage_module(request)
    if stage == "rewrite":
        return source_digest((own,), without=(*EXECUTION, *LOWERING))
    return source_digest((own, *filter(None, [request.form.module])))


def check_fallback(facts: Facts, max_fallback: float | None) -> None:
    """Refuse an artifact that leaves too much of the arithmetic outside the accelerator.

    Raises:
        BudgetError: E220.
    """
    if facts.delegation is None:
        return
    outside = 1.0 - facts.delegation.delegated_share
    if max_fallback is not None and outside > max_fallback:
        worst = ", ".join(
            f"{f.operator} x{f.count} ({f.share:.1%}: {f.reason})" for f in facts.delegation.fallbacks[:3]
        )
        raise BudgetError(
            what=f"{outside:.1%} of the arithmetic is outside {facts.delegation.backend}; allowed: {max_fallback:.1%}",
            where=facts.delegation.backend,
            why=worst,
            fix="raise --max-fallback, or shorten --context when attention is the largest part",
            code="E220",
        )
