"""The orders of passes of a non-decoder model on a CPU, with edgec's kernels and with standard ones."""

from __future__ import annotations

from dataclasses import replace

from edgec.exporter.recipes.passes import passes_for
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.stages.pass_orders import computed_weights
from edgec.ir.spectra import SPECTRUM
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.compress.quantize_convolutions import QuantizeConvolutions
from edgec.passes.compress.quantize_recurrent import QuantizeRecurrent
from edgec.passes.contract import Pass
from edgec.passes.equalise.rotate_inputs import INPUT_ROTATION, RotateInputs
from edgec.passes.fuse.batch_dimension import BatchDimension
from edgec.passes.fuse.blocks_to_channels import BlocksToChannels
from edgec.passes.fuse.fold_batch_norm import FoldBatchNorm
from edgec.passes.fuse.fuse_recurrent_layers import FuseRecurrentLayers
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.fuse.fuse_sdpa import FuseSdpa
from edgec.passes.fuse.matmul_to_linear import MatmulToLinear
from edgec.passes.fuse.patches_to_linear import PatchesToLinear
from edgec.passes.fuse.vector_to_matrix import VectorToMatrix
from edgec.passes.graph.calibration import Calibration
from edgec.passes.kv.encoder_attention import EncoderAttention
from edgec.passes.static.decompose_attention import DecomposeAttention
from edgec.passes.static.unroll_recurrences import UnrollRecurrences


def module_passes(
    recipe: Recipe, rotated: bool = False, calibration: Calibration | None = None, loops: bool = False
) -> list[Pass]:
    """The passes of a non-decoder model on a CPU, in order.

    Args:
        recipe: resolved for the backend.
        rotated: rotate what layers read, where the recipe rounds it, since the outputs' direction is all that counts.
        calibration: the inputs that the model is judged on; convolutions are rounded on them.
        loops: LSTM and GRU layers call edgec's kernels, whatever the others call; else they are loops of ExecuTorch's.

    With standard kernels attention is written out before anything is rounded: after it, the least difference moves an
    activation to the next of its 256 levels, and several layers make 5 % of that (measured on MiniLM-L6 in 8 bits),
    which looks like a fault.
    """
    shared = _own_module_passes() if recipe.kernels == "edgec" else _standard_module_passes()
    # Before weights are folded, since an LSTM's two biases become one.
    shared[1:1] = [UnrollRecurrences(cells_alone=True), FuseRecurrentLayers()]
    if recipe.weights is not None and calibration:
        shared.append(QuantizeConvolutions(calibration, ((f"{SPECTRUM}*", None), *recipe.rules), recipe.weights))
    if recipe.weights is not None and loops:
        shared.append(QuantizeRecurrent(recipe.rules, recipe.weights))
    # The backend computes tables of places from their parameters: the ledger counts what is stored.
    last = FoldConstants(every=recipe.kernels == "edgec")
    if not rotated or recipe.weights is None or recipe.weights.is_table:
        return [*shared, *passes_for(recipe), last]
    kept = replace(recipe, rules=((f"{INPUT_ROTATION}*", None), *recipe.rules))
    return [*shared, RotateInputs(), *passes_for(kept), last]


def _own_module_passes() -> list[Pass]:
    """What edgec's kernels read: linear layers over [1, T, C], and attention that is one operator where it can be."""
    return [
        RemoveNoops(),
        # Position tables that code makes from ranges, too.
        computed_weights(),
        FoldBatchNorm(),
        BlocksToChannels(),
        PatchesToLinear(points=False),
        MatmulToLinear(),
        VectorToMatrix(),
        FuseSdpa(),
        EncoderAttention(others_stay=True),
        DecomposeAttention(),
        FuseRmsNorm(heads=True),
        BatchDimension(),
    ]


def _standard_module_passes() -> list[Pass]:
    return [
        RemoveNoops(),
        computed_weights(),
        FoldBatchNorm(),
        BlocksToChannels(),
        MatmulToLinear(),
        VectorToMatrix(),
        FuseSdpa(),
        DecomposeAttention(),
    ]
