"""The spine: the one place that knows the order of the stages.

    resolve -> reference -> capture -> rewrite -> lower -> verify -> bundle

Each finished stage is kept in the stage cache under the hash of its inputs, so an interrupted export continues where it
stopped. Capture is not kept: it takes seconds and holds no allocated weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from edgec.backends.forms import Form, form_of
from edgec.bundle.manifest import BitSearch, Limits, Rung
from edgec.bundle.prefix import SystemPrompt
from edgec.devices.targets import Target
from edgec.errors import BudgetError
from edgec.exporter.parity import ladder
from edgec.exporter.parity.ladder import Stage
from edgec.exporter.parity.probe import Probe, make_probe
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.sources.decoder_spec import model_spec
from edgec.exporter.sources.resolve import ModelSource
from edgec.exporter.sources.weights import HeldWeights, Weights
from edgec.exporter.stage_cache import StageCache, source_digest, stage_key
from edgec.exporter.stages import decoder, module
from edgec.exporter.stages.compiled import (
    ARTIFACT,
    Facts,
    Rewrite,
    load_facts,
    load_rewrite,
    save_facts,
    save_rewrite,
)
from edgec.exporter.stages.static_choice import static_decoder_stages
from edgec.exporter.stages.static_decoder import limits_of as static_limits
from edgec.exporter.stages.static_module import static_module_stages
from edgec.exporter.tool_versions import tool_versions
from edgec.free_memory import return_free_memory
from edgec.ir.program import Program
from edgec.ir.spec import ModelSpec


@dataclass(frozen=True)
class Request:
    """One export, fully resolved.

    Attributes:
        source: the model.
        target: what it is made for.
        recipe: how.
        context: tokens; None for the recipe's or the model's own.
        text: the user's own text for the ladder.
        tokenizer: transformers tokenizer, or None.
        draft_heads: safetensors of heads that guess tokens further ahead, or None.
        max_fallback: largest share of the arithmetic outside the accelerator, 0..1, or None.
        prompt: the system prompt to ship, or None.
        calibration: tokens of the text that weights are calibrated on; may be empty.
        bit_search: how the bits of layers were chosen, if they were searched for.
    """

    source: ModelSource
    target: Target
    recipe: Recipe
    context: int | None = None
    text: str | None = None
    tokenizer: Any = field(default=None, compare=False)
    max_fallback: float | None = None
    prompt: SystemPrompt | None = None
    draft_heads: Path | None = None
    calibration: tuple[int, ...] = ()
    bit_search: BitSearch | None = None

    @property
    def form(self) -> Form:
        """What the artifact looks like."""
        return form_of(self.target)

    @cached_property
    def spec(self) -> ModelSpec:
        """The decoder's shape."""
        return model_spec(self.source.config)

    @cached_property
    def limits(self) -> Limits:
        """What the artifact will serve."""
        if self.form.static:
            return static_limits(self.spec, self.recipe, self.context, self.form)
        return decoder.limits_of(self.spec, self.recipe, self.context)

    @cached_property
    def probe(self) -> Probe:
        """The ladder's tokens."""
        limits = self.limits
        sizes = (self.spec.vocab_size, limits.context, limits.prefill_chunk, limits.logit_rows)
        windows = [layer.window for layer in self.spec.layers if layer.window and layer.window < limits.context]
        window = max(windows) + self.recipe.sink_tokens if windows else 0
        return make_probe(self.tokenizer, *sizes, self.text, window=window, static=self.form.static)


@dataclass(frozen=True)
class Compiled:
    """A verified artifact, ready to be bundled."""

    artifact: Path
    facts: Facts
    rungs: tuple[Rung, ...]


def compile_model(request: Request, cache: StageCache, progress: Progress) -> Compiled:
    """Run every stage between resolve and bundle.

    Raises:
        BudgetError: E201 the ladder, E220 too much of the arithmetic outside the accelerator.
        InputError: the model cannot be captured, or a pass is not legal on it.
    """
    return _run(_STAGES[request.source.kind == "decoder", request.form.static](request), request, cache, progress)


def _run(stages: Any, request: Request, cache: StageCache, progress: Progress) -> Compiled:
    inputs = stage_inputs(request, cache)
    rewrite_folder, rewrite_known = _stage(cache, inputs, "rewrite", lambda folder: stages.rewrite(folder, progress))
    if rewrite_known:
        progress.enter("rewrite", cached=True)
    lowered, lowered_known = _stage(cache, inputs, "lower", lambda folder: stages.lower(folder, progress))
    if lowered_known:
        progress.enter("lower", cached=True)
    facts, artifact = load_facts(lowered), lowered / request.form.artifact
    check_fallback(facts, request.max_fallback)
    progress.enter("verify")
    rewrite, logits = load_rewrite(rewrite_folder)
    rungs = (*rewrite.rungs, *stages.verify(artifact, rewrite, logits))
    return_free_memory()
    ladder.gate(rungs)
    return Compiled(artifact, facts, rungs)


def _stage(cache: StageCache, inputs: dict[str, Any], name: str, writer: Callable[[Path], None]) -> tuple[Path, bool]:
    """A stage's folder, and whether it was finished before."""
    key = stage_key({**inputs, "stage": name})
    known = cache.get(key)
    if known is not None:
        return known, True
    folder = cache.put(key, writer)
    return_free_memory()
    return folder, False


def stage_inputs(request: Request, cache: StageCache) -> dict[str, Any]:
    """Everything the result depends on."""
    source = request.source
    return {
        "files": {file.name: cache.file_fingerprint(file) for file in source.files},
        "config": source.config,
        "source": source.source if source.factory is not None and source.weights is None else "",
        "trained": source.trained,
        "seed": source.seed,
        "task": source.task,
        "backend": request.target.backend,
        "format": request.target.format,
        "chip": request.target.soc_model if request.form.one_chip else None,
        "recipe": request.recipe.to_json(),
        "context": request.context,
        "text": request.text,
        "calibration": list(request.calibration),
        "draft_heads": cache.file_fingerprint(request.draft_heads) if request.draft_heads else None,
        "tools": tool_versions(request.form.tools),
        "edgec": source_digest("exporter", "passes", "backends"),
    }


def check_fallback(facts: Facts, max_fallback: float | None) -> None:
    """Refuse an artifact that leaves too much outside the accelerator.

    Raises:
        BudgetError: E220.
    """
    outside = 1.0 - facts.delegation.delegated_share
    if max_fallback is not None and outside > max_fallback:
        worst = ", ".join(
            f"{f.operator} x{f.count} ({f.share:.1%}: {f.reason})" for f in facts.delegation.fallbacks[:3]
        )
        raise BudgetError(
            what=f"{outside:.1%} of the arithmetic is outside {facts.delegation.backend}; {max_fallback:.1%} may be",
            where=facts.delegation.backend,
            why=worst,
            fix="raise --max-fallback, or shorten --context when attention is the largest part",
            code="E220",
        )


def _weights(source: ModelSource) -> Weights:
    assert source.weights is not None  # a decoder's are named, only a factory's module owns its own
    return source.weights


@dataclass
class _DecoderStages:
    """The stages of a decoder; the captured and rewritten programs stay in memory between them."""

    request: Request
    rewritten: decoder.Rewritten | None = None

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Reference, capture, passes; leaves rungs and logits."""
        request = self.request
        weights = HeldWeights(_weights(request.source))
        progress.enter("reference")
        eager = decoder.eager_stage(request.source, weights, request.probe)
        passes = decoder.passes_of(request.recipe, request.limits, request.draft_heads, request.calibration)
        trained = request.source.trained
        capture = partial(decoder.captured, request, weights, progress)
        done = decoder.rewrite(capture, eager, passes, request.probe, request.recipe, trained, progress)
        self.rewritten = done
        names = Rewrite(rungs=list(done.rungs), reference=done.reference.name, final=done.final.name)
        save_rewrite(folder, names, {"final": done.final.logits, "reference": done.reference.logits})

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the last graph; leaves the artifact and its facts."""
        from edgec.backends.xnnpack.lower import lower

        program = self.rewritten.program if self.rewritten else self._again(progress)
        progress.enter("lower")
        steps = {"lower": 0.5, "emit": 0.5}
        lowered = lower(program, lambda name, i, n: progress.step(steps[name] * i / n + (0.5 if name == "emit" else 0)))
        with (folder / ARTIFACT).open("wb") as stream:
            lowered.write(stream)
        save_facts(folder, decoder.facts(program, lowered, self.request.limits))
        self.rewritten = None  # executing the artifact takes as much memory as its graph

    def _again(self, progress: Progress) -> Program:
        """The rewritten graph of an export that was interrupted after its rungs were measured."""
        from edgec.passes.contract import run_passes

        request = self.request
        program = decoder.captured(request, HeldWeights(_weights(request.source)), progress)
        passes = decoder.passes_of(request.recipe, request.limits, request.draft_heads, request.calibration)
        return run_passes(program, passes, in_place=True)

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Any]) -> list[Rung]:
        """Execute the artifact and compare it with the graph it was made from, and with the float model."""
        request = self.request
        final, reference = Stage(rewrite.final, logits["final"]), Stage(rewrite.reference, logits["reference"])
        trained = request.source.trained
        lowering, *quality = decoder.artifact_rungs(artifact, final, reference, request.probe, request.recipe, trained)
        return [lowering if lowering.passed else self._located(lowering), *quality]

    def _located(self, rung: Rung) -> Rung:
        """A failed rung with the layer where the artifact parts from its graph; costs a second lowering."""
        from edgec.backends.xnnpack.lower import lower

        program = self.rewritten.program if self.rewritten else self._again(Progress())
        layer = decoder.locate_in_artifact(program, self.request.probe, lambda exposed: lower(exposed).artifact)
        return rung.model_copy(update={"first_diverging_layer": layer})


# By whether the model is a decoder, and whether its methods have fixed shapes.
_STAGES: Mapping[tuple[bool, bool], Callable[[Request], Any]] = {
    (True, False): _DecoderStages,
    (True, True): static_decoder_stages,
    (False, False): module.ModuleStages,
    (False, True): static_module_stages,
}
