"""All orders of passes side by side: for decoders and other modules, on CPUs and on accelerators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from edgec.backends.forms import Form
from edgec.bundle.entry_points import Limits
from edgec.exporter.recipes.passes import passes_for, preparing_passes
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.resolve.limits import slots
from edgec.ir.stateful_call import StatefulNames
from edgec.passes.cleanup.fake_values import FakeValues
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.narrow_inputs import NarrowInputs
from edgec.passes.cleanup.plain_operators import PlainOperators
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.cleanup.sink_transposes import SinkTransposes
from edgec.passes.compress.half_scales import HalfScales
from edgec.passes.compress.rounding.weight_grid import without_inputs
from edgec.passes.contract import Pass
from edgec.passes.draft.draft_heads import DraftHeads
from edgec.passes.draft.early_exit import EarlyExit
from edgec.passes.draft.head_weights import StoredHeads
from edgec.passes.draft.hidden_output import HiddenOutput
from edgec.passes.draft.shared_rounding import SharedRounding
from edgec.passes.fuse.batch_dimension import BatchDimension
from edgec.passes.fuse.convolution_to_linear import ConvolutionToLinear
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.fuse.fuse_rope import FuseRope
from edgec.passes.fuse.fuse_sdpa import FuseSdpa
from edgec.passes.fuse.matmul_to_linear import MatmulToLinear
from edgec.passes.fuse.patches_to_linear import PatchesToLinear
from edgec.passes.fuse.pool_to_mean import PoolToMean
from edgec.passes.fuse.vector_to_matrix import VectorToMatrix
from edgec.passes.graph.calibration import Calibration
from edgec.passes.kv.encoder_attention import EncoderAttention
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.kv.shared_kv import SharedKv
from edgec.passes.prefill.last_logits import LastLogits
from edgec.passes.prefill.prefill_skip import PrefillSkip
from edgec.passes.static.apple_operators import AppleOperators
from edgec.passes.static.bias_tables import BiasTables
from edgec.passes.static.decompose_attention import DecomposeAttention
from edgec.passes.static.finite_mask import FiniteMask
from edgec.passes.static.five_dimensions import FiveDimensions
from edgec.passes.static.fp16_safe_mean import Fp16SafeMean
from edgec.passes.static.fp16_safe_norm import Fp16SafeNorm
from edgec.passes.static.keep_float import KeepFloat
from edgec.passes.static.linear_to_conv2d import LinearToConv2d
from edgec.passes.static.merge_dimensions import MergeDimensions
from edgec.passes.static.mrope_tables import MropeTables
from edgec.passes.static.position_tables import PositionTables
from edgec.passes.static.split_linear import SplitLinear
from edgec.passes.static.stacked_cache import StackedCache
from edgec.passes.static.stateful_method import StatefulMethod
from edgec.passes.static.static_cache import StaticCache
from edgec.passes.static.static_memory import StaticMemory
from edgec.passes.static.static_method import StaticMethod
from edgec.passes.static.static_states import StaticStates
from edgec.passes.static.sum_minimums import SumMinimums
from edgec.passes.static.unroll_recurrences import UnrollRecurrences

MethodPasses = Callable[[Recipe, Limits], Mapping[str, list[Pass]]]
"""The passes of each method of a model, in order."""

# A cast to float32 doubles a bfloat16 weight; the backend stores float16 anyway.
_GROWTH = 1.5
# LFM2-VL stretches 16 x 16 learned positions to four times as many patches, and 16 bits to float32.
_STRETCHED = 8.0


def decoder_passes(
    recipe: Recipe,
    limits: Limits,
    draft_heads: StoredHeads | None = None,
    calibration: Sequence[int] = (),
    hidden: Sequence[Pass] = (),
) -> list[Pass]:
    """The passes of a decoder on a CPU, in order.

    ``calibration``: tokens of a text; ``hidden``: gives a predictor the hidden states that it goes on from.
    """
    own = recipe.kernels == "edgec"
    known = Calibration(calibration, context=limits.context)
    return [
        RemoveNoops(),
        MatmulToLinear(),
        SinkTransposes(),
        LastLogits(rows=limits.logit_rows),
        *([EarlyExit(recipe.early_exit)] if recipe.early_exit else []),
        *([DraftHeads(draft_heads)] if draft_heads else []),
        *hidden,
        *([SharedKv(recipe.boundary, recipe.shared_kv)] if recipe.shared_kv else []),
        FuseRmsNorm(heads=own),
        *preparing_passes(recipe, known),
        *([FuseRope()] if own else []),
        _varying_cache(recipe, limits),
        PrefillSkip(),
        *passes_for(recipe, known),
        FoldConstants(),
    ]


def predictor_passes(recipe: Recipe, limits: Limits, shared: SharedRounding) -> list[Pass]:
    """The passes of a predictor of further tokens on a CPU, in order; no text shows what its layers read."""
    own = recipe.kernels == "edgec"
    return [
        RemoveNoops(),
        MatmulToLinear(),
        SinkTransposes(),
        LastLogits(rows=limits.logit_rows),
        HiddenOutput(every=False),
        FuseRmsNorm(heads=own),
        *([FuseRope()] if own else []),
        replace(_varying_cache(recipe, limits), rings=False),
        PrefillSkip(),
        *passes_for(replace(recipe, algorithm=without_inputs(recipe.algorithm))),
        shared,
        FoldConstants(),
    ]


def _varying_cache(recipe: Recipe, limits: Limits) -> KvCache:
    """The cache of calls of varying length; drafts are dropped from it, which have a row of logits for each token."""
    revocable = max(1, limits.logit_rows - 1)
    sizes = (limits.context, limits.prefill_chunk, recipe.kv_dtype, recipe.sink_tokens, recipe.kernels)
    return KvCache(*sizes, revocable=revocable)


def encoder_decoder_passes(recipe: Recipe, limits: Limits) -> Mapping[str, list[Pass]]:
    """The passes of each method of an encoder-decoder on a CPU, in order."""
    first, *others = decoder_passes(recipe, limits)
    module = [*passes_for(recipe), FoldConstants()]
    # ExecuTorch has no operator for attention of which nothing is hidden.
    free: Pass = EncoderAttention() if recipe.kernels == "edgec" else DecomposeAttention(causal=False)
    return {
        "encode": [
            RemoveNoops(),
            ConvolutionToLinear(),
            SinkTransposes(),
            free,
            FuseRmsNorm(heads=True),
            *module,
        ],
        "cross": [RemoveNoops(), SinkTransposes(), *module],
        "forward": [first, free, *others],
    }


def vision_language_passes(recipe: Recipe, limits: Limits) -> Mapping[str, list[Pass]]:
    """The passes of each method of a vision-language model on a CPU, in order."""
    encoder: list[Pass] = [
        RemoveNoops(),
        # Position tables that code makes from ranges are constants before their weights are rounded.
        FoldConstants(growth=_GROWTH),
        PatchesToLinear(),
        MatmulToLinear(),
        SinkTransposes(),
        # ExecuTorch has no operator for attention of which nothing is hidden.
        EncoderAttention() if recipe.kernels == "edgec" else DecomposeAttention(),
        FuseRmsNorm(heads=True),
        BatchDimension(),
        *passes_for(recipe),
        FoldConstants(growth=_STRETCHED),
    ]
    return {"vision_encoder": encoder, "forward": decoder_passes(recipe, limits)}


def audio_language_passes(recipe: Recipe, limits: Limits) -> Mapping[str, list[Pass]]:
    """The passes of each method of a speech-language model on a CPU, in order."""
    encoder: list[Pass] = [
        RemoveNoops(),
        # Rotary tables that code makes from ranges are constants before weights are rounded.
        FoldConstants(growth=_GROWTH),
        ConvolutionToLinear(),
        PoolToMean(),
        MatmulToLinear(),
        SinkTransposes(),
        EncoderAttention(),
        FuseRmsNorm(heads=True),
        BatchDimension(),
        *passes_for(recipe),
        FoldConstants(),
    ]
    return {"audio_encoder": encoder, "forward": decoder_passes(recipe, limits)}


def static_decoder_passes(
    recipe: Recipe, limits: Limits, calibration: Sequence[int] = (), held: int | None = None, skips: bool = True
) -> list[Pass]:
    """The passes that all static methods of a decoder share, in order; ``calibration``: tokens of a text.

    ``held``: positions that states hold; None: the context in whole chunks; ``skips``: layers that serve no later token
    run for the last one alone.
    """
    known = Calibration(calibration, context=limits.context)
    cache = KvCache(
        held or slots(limits), limits.prefill_chunk, "float32", recipe.sink_tokens, rings=False, revocable=1
    )
    return [
        RemoveNoops(),
        MatmulToLinear(),
        LastLogits(rows=1),
        *([EarlyExit(recipe.early_exit)] if recipe.early_exit else []),
        *([SharedKv(recipe.boundary, recipe.shared_kv)] if recipe.shared_kv else []),
        FuseRmsNorm(),
        *preparing_passes(recipe, known),
        cache,
        *([PrefillSkip()] if skips else []),
        *passes_for(recipe, known),
        FoldConstants(growth=_GROWTH),
    ]


def stateful_decoder_passes(recipe: Recipe, limits: Limits, calibration: Sequence[int] = ()) -> list[Pass]:
    """The passes of a decoder up to its one method for another runtime, in order; all tokens have logits."""
    shared = static_decoder_passes(recipe, limits, calibration, held=limits.context, skips=False)
    return [each for each in shared if not isinstance(each, LastLogits)]


def stateful_passes(names: StatefulNames, context: int) -> list[Pass]:
    """The passes of the one method that another runtime calls, in order; all of them are exact."""
    return [
        StatefulMethod(names, context),
        PositionTables(context),
        StackedCache(names),
        Fp16SafeNorm(),
        SumMinimums(),
        FiniteMask(),
    ]


def single_method_passes(recipe: Recipe, limits: Limits, calibration: Sequence[int] = ()) -> list[Pass]:
    """The passes of a decoder that becomes one method of varying length, in order; every token goes through all layers.

    ``calibration``: tokens of a text.
    """
    shared = static_decoder_passes(recipe, limits, calibration, skips=False)
    cache = next(i for i, each in enumerate(shared) if isinstance(each, KvCache))
    return [*shared[:cache], FuseRope(), *shared[cache:]]


def file_passes(recipe: Recipe, limits: Limits, calibration: Sequence[int] = ()) -> list[Pass]:
    """The passes of a decoder that becomes a file of weights, in order: parameters keep their names, none is folded."""
    known = Calibration(calibration, context=limits.context)
    return [
        RemoveNoops(),
        MatmulToLinear(),
        FuseRmsNorm(),
        *preparing_passes(recipe, known),
        *passes_for(recipe, known),
        HalfScales(),
    ]


def method_passes(name: str, tokens: int, held: int, form: Form) -> list[Pass]:
    """The passes of one static method, in order; all of them are exact. ``held``: positions that the states hold."""
    return [
        StaticMethod(name, tokens),
        PositionTables(held),
        MropeTables(held),
        BiasTables(held),
        StaticStates(form.state_multiple, form.updates),
        StaticCache(form.state_multiple, form.updates, form.fused_attention),
        StaticMemory(),
        *([Fp16SafeNorm()] if form.computed_in_half else []),
        SumMinimums(),
        *([SplitLinear(form.linear_width, form.logits_width)] if form.linear_width else []),
        *([LinearToConv2d()] if form.convolutions else []),
        FiniteMask(),
    ]


def static_vision_passes(recipe: Recipe, form: Form) -> list[Pass]:
    """The passes of the image encoder of a vision-language model with methods of fixed shapes, in order."""
    return [
        RemoveNoops(),
        # Position tables that code makes from ranges are constants before their weights are rounded.
        FoldConstants(growth=_GROWTH),
        PatchesToLinear(planes=False),
        *static_module_passes(recipe, form),
        # As on CPUs, where the converter would not compute them.
        FoldConstants(growth=_STRETCHED),
    ]


def static_encoder_decoder_passes(
    recipe: Recipe, limits: Limits, form: Form, held: int | None = None
) -> Mapping[str, list[Pass]]:
    """The passes of each method of an encoder-decoder where shapes are fixed, in order; ``held`` as above."""
    first, *others = static_decoder_passes(recipe, limits, held=held)
    module = static_module_passes(recipe, form)
    return {
        # Biases by the places of tokens are constants, whose logarithms float16 would round to other places.
        "encode": [RemoveNoops(), FoldConstants(growth=_GROWTH), *module, FoldConstants(every=True)],
        "cross": module,
        "forward": [first, EncoderAttention(), *others],
    }


def computed_weights() -> Pass:
    """What code makes from parameters alone is a constant before weights are rounded: it is a weight itself."""
    return FoldConstants(growth=_GROWTH)


def static_module_passes(recipe: Recipe, form: Form) -> list[Pass]:
    """The passes of a non-decoder model for an accelerator or ONNX Runtime, in order."""
    rounding = passes_for(recipe)
    return [
        RemoveNoops(),
        *([computed_weights()] if rounding else []),
        PlainOperators(),
        *([AppleOperators(images_too=not form.slopes)] if form.half else []),
        *([UnrollRecurrences()] if form.unrolls else []),
        PoolToMean(),
        MatmulToLinear(),
        VectorToMatrix(),
        FuseSdpa(),
        FuseRmsNorm(),
        *rounding,
        *([FakeValues()] if rounding else []),
        DecomposeAttention(),
        MergeDimensions(),
        FiveDimensions(),
        *([Fp16SafeMean()] if form.computed_in_half else []),
        *([Fp16SafeNorm()] if form.computed_in_half else []),
        FoldConstants(every=form.folds),
        *([SplitLinear(form.linear_width, form.logits_width)] if form.linear_width else []),
        *([LinearToConv2d()] if form.convolutions else []),
        # A fixed-point range from -45,000 on would leave scores no resolution; there -40,000 is narrowed later.
        FiniteMask(hidden_rows=not form.calibrated),
        NarrowInputs(),
        *([KeepFloat(recipe.keep_float)] if form.half and recipe.keep_float else []),
    ]
