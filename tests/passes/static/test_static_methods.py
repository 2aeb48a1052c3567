"""Every family as static methods: the numbers are those of the captured program, which has no cache at all."""

from __future__ import annotations

import pytest
import torch

from edgec.passes.contract import Pass
from edgec.passes.static.finite_mask import FiniteMask
from edgec.passes.static.fp16_safe_norm import Fp16SafeNorm
from edgec.passes.static.linear_to_conv2d import LinearToConv2d
from edgec.passes.static.position_tables import PositionTables
from edgec.passes.static.split_linear import SplitLinear
from edgec.passes.static.static_cache import StaticCache
from tests.families import FAMILIES
from tests.passes.static_methods import CONTEXT, cached, methods, reference, run

# Float32 sums in another order: 1e-5 of the largest logit, ten times what is measured.
TOLERANCE = 1e-4


def passes(updates: str = "in_place", multiple: int = 32) -> list[Pass]:
    """All passes for the Neural Engine, with widths that cut tiny models."""
    neural: list[Pass] = [Fp16SafeNorm(), SplitLinear(48, 40), LinearToConv2d(), FiniteMask()]
    return [PositionTables(CONTEXT), StaticCache(multiple, updates), *neural]


def relative(got: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((got - wanted).abs().max() / wanted.abs().max())


QUICK = ("llama", "gemma4_text")


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [f.name if f.name in QUICK else pytest.param(f.name, marks=pytest.mark.slow) for f in FAMILIES]
)
def test_all_passes_together_keep_the_numbers(name: str) -> None:
    programs = methods(cached(name), passes())
    assert relative(run(programs), reference(name)) < TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize("name", [pytest.param("qwen3", marks=pytest.mark.slow), "gemma3_text"])
def test_a_caller_that_writes_the_cache_gets_the_same(name: str) -> None:
    programs = methods(cached(name), passes("caller"))
    assert relative(run(programs), reference(name)) < TOLERANCE
    assert not [tensor for tensor in programs["decode"].graph.buffers() if tensor.shape[-2:] == (CONTEXT, 32)]
