"""Decoders: capture, passes and the ladder's rungs up to the graph that is lowered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from torch import Tensor

from edgec.bundle.manifest import Limits, Rung
from edgec.exporter.adapt.record import recorded_grids
from edgec.exporter.capture.decoder import capture_decoder, skeleton
from edgec.exporter.parity import ladder
from edgec.exporter.parity.divergence import artifact_layers, expose_layers, first_diverging_layer, program_layers
from edgec.exporter.parity.execution import run_artifact, run_eager, run_program
from edgec.exporter.parity.ladder import Stage, lowering_rung, quality_rung
from edgec.exporter.parity.position_mixing import refuse_mixed_positions
from edgec.exporter.parity.probe import Probe
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.passes import passes_for, preparing_passes, rounds_weights
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.resolve import ModelSource
from edgec.exporter.sources.weights import HeldWeights, Weights
from edgec.exporter.stages.compiled import Facts, method_info, pass_info, state_info
from edgec.exporter.stages.weight_facts import expected_bytes, require_rounded, weight_facts
from edgec.free_memory import return_free_memory
from edgec.ir.program import Effect, Program
from edgec.ir.spec import ModelSpec
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.compress.rounding.learned_grids import record_grids
from edgec.passes.contract import Pass, effect_on, run_pass, run_passes
from edgec.passes.draft.draft_heads import DraftHeads
from edgec.passes.draft.early_exit import EarlyExit
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.fuse.fuse_rope import FuseRope
from edgec.passes.graph.calibration import Calibration
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.kv.shared_kv import SharedKv
from edgec.passes.prefill.last_logits import LastLogits
from edgec.passes.prefill.prefill_skip import PrefillSkip

if TYPE_CHECKING:
    from edgec.backends.xnnpack.lower import Lowered
    from edgec.exporter.pipeline import Request


@dataclass(frozen=True)
class Rewritten:
    """A decoder ready to be lowered.

    Attributes:
        program: the last graph.
        rungs: the ladder so far.
        final: the last graph's own logits.
        reference: the logits of the float model, or of the last semantic pass.
    """

    program: Program
    rungs: tuple[Rung, ...]
    final: Stage
    reference: Stage


def limits_of(spec: ModelSpec, recipe: Recipe, context: int | None) -> Limits:
    """Context, chunk and rows that fit the model, the recipe and the caller's wish."""
    length = min(context or recipe.context or spec.context, spec.context)
    chunk = max(1, min(recipe.prefill_chunk, length))
    return Limits(context=length, prefill_chunk=chunk, logit_rows=max(1, min(recipe.logit_rows, chunk)))


def passes_of(
    recipe: Recipe, limits: Limits, draft_heads: Path | None = None, calibration: Sequence[int] = ()
) -> list[Pass]:
    """The passes of a decoder on a CPU, in order; ``calibration``: tokens of a text."""
    own = recipe.kernels == "edgec"
    known = Calibration(calibration, context=limits.context)
    return [
        RemoveNoops(),
        LastLogits(rows=limits.logit_rows),
        *([EarlyExit(recipe.early_exit)] if recipe.early_exit else []),
        *([DraftHeads(draft_heads)] if draft_heads else []),
        *([SharedKv(recipe.boundary, recipe.shared_kv)] if recipe.shared_kv else []),
        FuseRmsNorm(heads=own),
        *preparing_passes(recipe, known),
        *([FuseRope()] if own else []),
        KvCache(limits.context, limits.prefill_chunk, recipe.kv_dtype, recipe.sink_tokens, recipe.kernels),
        PrefillSkip(),
        *passes_for(recipe, known),
        FoldConstants(),
    ]


def eager_stage(source: ModelSource, weights: Weights, probe: Probe) -> Stage:
    """Transformers' own model on the probe, in float32 over the weights as they are stored."""
    model = source.build_on("cpu", attn_implementation="eager")
    put_weights(model, weights, as_stored=True)
    return Stage("transformers float32", run_eager(model, probe.tokens, probe.plan))


def capture(source: ModelSource, weights: Weights, spec: ModelSpec, limits: Limits) -> Program:
    """Trace the decoder and bind its weights."""
    bones = skeleton(lambda: source.build_on(None, attn_implementation="edgec"))
    program = capture_decoder(bones, spec, weights, max(limits.context, 8))
    record_grids(program.graph, recorded_grids(source))
    return program


def captured(request: Request, weights: HeldWeights, progress: Progress) -> Program:
    """The traced decoder of a request, from now on the only holder of its weights."""
    progress.enter("capture")
    program = capture(request.source, weights, request.spec, request.limits)
    weights.let_go()
    return program


def rewrite(
    captured: Callable[[], Program],
    eager: Stage,
    passes: Sequence[Pass],
    probe: Probe,
    recipe: Recipe,
    trained: bool,
    progress: Progress,
) -> Rewritten:
    """Apply the passes and measure each claim; exact ones that follow each other are measured together.

    Args:
        captured: traces the model and binds its weights; the passes rewrite that very graph and free its float weights,
            so it is asked again when a failure has to be located.
        eager: transformers' own model.
        passes: in order.
        probe: what is compared.
        recipe: for its budgets.
        trained: whether rounding is gated.
        progress: told of each group of passes.

    Raises:
        BudgetError: E201 as soon as a gated rung fails; E210, a weight stayed in float that was to be rounded.
        InputError: E526, something besides attention mixes positions.
    """
    program = captured()
    refuse_mixed_positions(program)
    progress.enter("rewrite")
    reference = before = Stage("captured", run_program(program, probe.tokens, probe.plan))
    rungs = [lowering_rung(eager, before)]
    ladder.gate(rungs)
    groups = together(passes)
    for index, group in enumerate(groups):
        name = " + ".join(rewrite_.name for rewrite_ in group)
        progress.step(index / len(groups), name)
        effect, unrounded = effect_on(group[-1], program), _unrounded(program, group[-1], probe)
        program = run_passes(program, group, in_place=True)
        return_free_memory()
        after = Stage(name, run_program(program, probe.tokens, probe.plan), effect)
        semantic = _semantic_reference(group[-1], after, unrounded)
        for rung in _measured(before, reference, after, recipe, trained, semantic):
            if rung.gated and not rung.passed:
                ladder.gate([_located(rung, _replayed(captured, groups[:index]), group, before, probe)])
            rungs.append(rung)
        reference, before = semantic or reference, after
    require_rounded(program)
    return Rewritten(program, tuple(rungs), before, reference)


def together(passes: Sequence[Pass]) -> list[list[Pass]]:
    """Passes whose claims are measured at once: neighbours that are exact; every other one alone."""
    groups: list[list[Pass]] = []
    for rewrite_ in passes:
        exact = rewrite_.effect is Effect.EXACT
        if groups and exact and groups[-1][-1].effect is Effect.EXACT:
            groups[-1].append(rewrite_)
        else:
            groups.append([rewrite_])
    return groups


def _replayed(captured: Callable[[], Program], groups: Sequence[Sequence[Pass]]) -> Program:
    return run_passes(captured(), [rewrite_ for group in groups for rewrite_ in group], in_place=True)


def _unrounded(program: Program, rewrite_: Pass, probe: Probe) -> Tensor | None:
    """The logits of a pass that changes the model on purpose and rounds it, without the rounding."""
    if effect_on(rewrite_, program) is not Effect.SEMANTIC or not isinstance(rewrite_, KvCache):
        return None
    if rewrite_.dtype == "float32":
        return None
    return run_program(run_pass(program, rewrite_.unrounded()), probe.tokens, probe.plan)


def _semantic_reference(rewrite_: Pass, after: Stage, unrounded: Tensor | None) -> Stage | None:
    """What a semantic pass makes of the model when it does not round: the reference for what follows."""
    if after.effect is not Effect.SEMANTIC:
        return None
    return Stage(f"{rewrite_.name} in float", after.logits if unrounded is None else unrounded, Effect.SEMANTIC)


def _measured(
    before: Stage, reference: Stage, after: Stage, recipe: Recipe, trained: bool, semantic: Stage | None
) -> list[Rung]:
    """The rungs of one pass: its drift where it changes the model on purpose, and its rounding."""
    if after.effect is Effect.EXACT:
        return [lowering_rung(before, after)]
    note = "" if trained else "random weights: reported, not gated"
    if semantic is None:
        return [quality_rung(reference, after, quality_budget(recipe), gated=trained, note=note)]
    drift = quality_rung(before, semantic, {}, gated=False, note="changes the model on purpose: the new reference")
    return [drift, quality_rung(semantic, after, quality_budget(recipe), gated=trained, note=note)]


def quality_budget(recipe: Recipe) -> dict[str, float]:
    """What a rounded model may differ by from the float one: the defaults with the recipe's own over them."""
    return {**ladder.QUALITY, **recipe.budgets}


def _located(rung: Rung, program: Program, group: Sequence[Pass], before: Stage, probe: Probe) -> Rung:
    """A failed rung with the pass at fault and the layer where it begins; costs a run of every pass of its group."""
    for rewrite_ in group:
        changed = run_pass(program, rewrite_)
        after = Stage(rewrite_.name, run_program(changed, probe.tokens, probe.plan))
        if len(group) == 1 or not lowering_rung(before, after).passed:
            break
        program = changed
    rung = rung.model_copy(update={"stage": rewrite_.name})
    wanted, got = (program_layers(one, probe.tokens, probe.plan) for one in (program, changed))
    tolerance = 1e-3 if rung.effect == "exact" else 0.5
    return rung.model_copy(update={"first_diverging_layer": first_diverging_layer(wanted, got, tolerance)})


def rounded(recipe: Recipe) -> bool:
    """Whether the artifact rounds activations or keys, so that two executions legitimately differ."""
    return recipe.kv_dtype != "float32" or rounds_weights(recipe)


def artifact_rungs(
    artifact: Path, final: Stage, reference: Stage, probe: Probe, recipe: Recipe, trained: bool
) -> list[Rung]:
    """Execute the artifact in ExecuTorch's runtime: against its own graph, and against the float model."""
    executed = Stage("artifact", run_artifact(artifact, probe.tokens, probe.plan), Effect.EXACT)
    loose = rounded(recipe)
    # Without rounding the artifact is the float model, and the recipe's budgets speak of just that difference.
    budget = ladder.ROUNDED_LOWERING if loose else {**ladder.FLOAT_LOWERING, **recipe.budgets}
    rungs = [lowering_rung(final, executed, budget, rounded=loose, note="executed by ExecuTorch on this machine")]
    if loose:
        rungs.append(quality_rung(reference, executed, quality_budget(recipe), gated=trained))
    return rungs


def locate_in_artifact(program: Program, probe: Probe, lower: Callable[[Program], bytes]) -> int | None:
    """The first layer whose attention differs between a graph and its artifact, found by lowering it with probes."""
    exposed = expose_layers(program)
    with TemporaryDirectory() as folder:
        artifact = Path(folder) / "exposed.pte"
        artifact.write_bytes(lower(exposed))
        inside = artifact_layers(artifact, exposed, probe.tokens, probe.plan)
    return first_diverging_layer(program_layers(program, probe.tokens, probe.plan), inside, 0.1)


def facts(program: Program, lowered: Lowered, limits: Limits) -> Facts:
    """The artifact's description."""
    weights = weight_facts(program, lowered.stored)
    return Facts(
        passes=[pass_info(change) for change in program.history],
        methods=[method_info(program.interface)],
        states=[state_info(state, lowered.state_offsets.get(state.buffer)) for state in program.interface.states],
        limits=limits,
        delegation=lowered.delegation,
        operators=list(lowered.operators),
        weights=weights,
        expected_weight_bytes=expected_bytes(weights, program),
    )
