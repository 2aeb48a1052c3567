"""Tiny decoders with linear layers of few bits, ready to be lowered."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from edgec.ir.kernel_grids import LINEAR_KERNELS, KernelGrid
from edgec.ir.program import Program
from edgec.ir.weight_scheme import SchemeRule, WeightScheme, balanced
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.quantize_embedding import QuantizeEmbedding
from edgec.passes.contract import Pass, run_passes
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.fuse.fuse_rope import FuseRope
from edgec.passes.kv.kv_cache import KvCache
from tests.passes.decoders import CONTEXT, captured

FOUR, EIGHT = WeightScheme(4, 32, scale_bits=16), WeightScheme(8, 0)
# Every form that the kernels read, in one model.
MIXED: tuple[SchemeRule, ...] = (
    ("*q_proj*", WeightScheme(2, 32, scale_bits=16)),
    ("*k_proj*", WeightScheme(3, 32, scale_bits=16)),
    ("*v_proj*", EIGHT),
    ("*o_proj*", balanced(1)),
    ("*up_proj*", WeightScheme(4, 0)),
    ("*down_proj*", WeightScheme(4, 64, scale_bits=16)),
)
# The same with activations in float; those of q and o stay integers, so that a value is read both ways.
IN_FLOAT: tuple[SchemeRule, ...] = tuple(
    (pattern, replace(scheme, activation_bits=0) if pattern not in ("*q_proj*", "*o_proj*") and scheme else scheme)
    for pattern, scheme in MIXED
)


@lru_cache(maxsize=8)
def quantised(
    family: str = "llama",
    rules: tuple[SchemeRule, ...] = (),
    lm_head: WeightScheme | None = EIGHT,
    default: WeightScheme = FOUR,
    kernels: tuple[KernelGrid, ...] = LINEAR_KERNELS,
    **options: Any,
) -> Program:
    """A decoder with edgec's operators and matrices of 4 bits, unless a rule says otherwise."""
    passes: list[Pass] = [
        *(FuseRmsNorm(heads=True), FuseRope(), KvCache(CONTEXT, 12, "float32", 0, "edgec")),
        *(Quantize(rules, default, lm_head, kernels=kernels), QuantizeEmbedding(8, min_rows=1), FoldConstants()),
    ]
    return run_passes(captured(family, **options), passes)
