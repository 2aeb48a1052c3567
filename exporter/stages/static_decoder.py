"""Decoders for NPUs: static methods over one set of weights and states, lowered by the target's backend.

cached program -> passes of every method -> prefill (64 tokens), decode (1 token) -> backend -> artifact
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgec.backends.forms import Form
from edgec.bundle.manifest import Limits, Rung
from edgec.errors import InputError
from edgec.exporter.parity.held_matrices import held
from edgec.exporter.parity.ladder import (
    COMPRESSED_HALF_LOWERING,
    HALF_LOWERING,
    ROUNDED_LOWERING,
    Stage,
    lowering_rung,
    quality_rung,
)
from edgec.exporter.parity.probe import Probe
from edgec.exporter.recipes.passes import passes_for, preparing_passes, rounds_weights
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.stages.decoder import quality_budget
from edgec.ir.program import Effect, Program
from edgec.ir.spec import ModelSpec
from edgec.ir.static_methods import DECODE, PREFILL, GraphMethods, Methods, run_static
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass, run_passes
from edgec.passes.draft.early_exit import EarlyExit
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.graph.calibration import Calibration
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.kv.shared_kv import SharedKv
from edgec.passes.prefill.last_logits import LastLogits
from edgec.passes.prefill.prefill_skip import PrefillSkip
from edgec.passes.static.finite_mask import FiniteMask
from edgec.passes.static.fp16_safe_norm import Fp16SafeNorm
from edgec.passes.static.linear_to_conv2d import LinearToConv2d
from edgec.passes.static.position_tables import PositionTables
from edgec.passes.static.split_linear import SplitLinear
from edgec.passes.static.static_cache import StaticCache
from edgec.passes.static.static_method import StaticMethod

# A cast to float32 doubles a bfloat16 weight; the backend wants float16 anyway.
_GROWTH = 1.5
STAGE = "static methods"


def limits_of(spec: ModelSpec, recipe: Recipe, context: int | None, form: Form) -> Limits:
    """Context and chunk that fit the model, the recipe and the caller's wish; a whole number of chunks is held."""
    length = min(context or recipe.context or form.context, spec.context)
    return Limits(context=length, prefill_chunk=max(1, min(recipe.prefill_chunk, form.chunk, length)), logit_rows=1)


def slots(limits: Limits) -> int:
    """Positions that a state holds: the context, rounded up to whole chunks, as padding is written too."""
    return -(-limits.context // limits.prefill_chunk) * limits.prefill_chunk


def check_static(recipe: Recipe, form: Form, *, draft_heads: bool, system_prompt: bool) -> None:
    """Refuse what static methods do not do, before any work.

    Raises:
        InputError: E402.
    """
    refusals = {
        "--draft-heads": draft_heads and "static methods return the logits of one row, and heads need more",
        "--system-prompt": system_prompt and "the states of this format cannot be read out here",
        f"recipe {recipe.name}, cache.dtype": recipe.kv_dtype not in form.caches
        and f"its states hold {form.caches[0]}, not {recipe.kv_dtype}",
    }
    for where, why in refusals.items():
        if why:
            raise InputError(
                what=f"{form.artifact} cannot do this",
                where=where,
                why=why,
                fix="leave it out, or export for a CPU (--target iphone-16-pro-cpu)",
                code="E402",
            )


def shared_passes(recipe: Recipe, limits: Limits, calibration: Sequence[int] = ()) -> list[Pass]:
    """The passes that all methods share, in order; ``calibration``: tokens of a text."""
    known = Calibration(calibration, context=limits.context)
    cache = KvCache(slots(limits), limits.prefill_chunk, "float32", recipe.sink_tokens, rings=False)
    return [
        RemoveNoops(),
        LastLogits(rows=1),
        *([EarlyExit(recipe.early_exit)] if recipe.early_exit else []),
        *([SharedKv(recipe.boundary, recipe.shared_kv)] if recipe.shared_kv else []),
        FuseRmsNorm(),
        *preparing_passes(recipe, known),
        cache,
        PrefillSkip(),
        *passes_for(recipe, known),
        FoldConstants(growth=_GROWTH),
    ]


def method_passes(name: str, tokens: int, limits: Limits, form: Form) -> list[Pass]:
    """The passes of one method, in order; all of them exact."""
    return [
        StaticMethod(name, tokens),
        PositionTables(slots(limits)),
        StaticCache(form.state_multiple, form.updates),
        *([Fp16SafeNorm()] if form.half else []),
        *([SplitLinear(form.linear_width, form.logits_width)] if form.linear_width else []),
        *([LinearToConv2d()] if form.convolutions else []),
        FiniteMask(),
    ]


def static_methods(program: Program, limits: Limits, form: Form) -> dict[str, Program]:
    """``prefill`` and ``decode`` of a cached program; tensors are shared."""
    sizes = {PREFILL: limits.prefill_chunk, DECODE: 1}
    return {name: run_passes(program, method_passes(name, size, limits, form)) for name, size in sizes.items()}


def graph_stage(methods: Mapping[str, Program], probe: Probe) -> Stage:
    """The logits of static methods as graphs, in float32."""
    return Stage(STAGE, run_static(GraphMethods(held(methods)), probe.tokens, probe.plan))


def lowering_budget(recipe: Recipe, *, half: bool) -> dict[str, float]:
    """How far an artifact may lie from its graph; ``half``: it computes in float16 and rounds no activations."""
    if not rounds_weights(recipe):
        return {**HALF_LOWERING, **recipe.budgets}
    return COMPRESSED_HALF_LOWERING if half else ROUNDED_LOWERING


def artifact_rungs(
    executed: Methods,
    final: Stage,
    reference: Stage,
    probe: Probe,
    recipe: Recipe,
    trained: bool,
    note: str,
    *,
    half: bool,
) -> list[Rung]:
    """The executed artifact against its own graph in float32, and against the float model."""
    after = Stage("artifact", run_static(executed, probe.tokens, probe.plan), Effect.EXACT)
    rungs = [lowering_rung(final, after, lowering_budget(recipe, half=half), rounded=True, note=note)]
    if rounds_weights(recipe):
        rungs.append(quality_rung(reference, after, quality_budget(recipe), gated=trained))
    return rungs
