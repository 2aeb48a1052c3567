"""Saved state of real artifacts with rings and rounded caches: what follows a restored one is the same, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgec
from edgec.exporter.recipes.file import load_recipe
from tests.families import FAMILIES, save

TOKENS = [3 + (7 * i) % 120 for i in range(100)]
NEXT = [5, 6, 7]


@pytest.mark.long
def test_a_cache_with_rings_comes_back(ring_bundle: Path, tmp_path: Path) -> None:
    assert_state_comes_back(ring_bundle, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kv_dtype", "kernels"),
    [("int8", "edgec"), ("int4", "edgec"), ("float16", "edgec"), ("float32", "standard"), ("int8", "standard")],
)
def test_a_rounded_cache_with_rings_comes_back(kv_dtype: str, kernels: str, tmp_path: Path) -> None:
    family = next(family for family in FAMILIES if family.name == "gemma3_text")
    recipe = replace(load_recipe("float"), kv_dtype=kv_dtype, kernels=kernels, prefill_chunk=16)
    budgets = {"kl_mean": 9.0, "top1_agreement": 0.0}  # random weights with 4-bit keys: quality is not the question
    folder = save(family, tmp_path / "model")
    bundle = edgec.export(folder, recipe=recipe, out=tmp_path / "x.edgec", context=128, budgets=budgets)
    assert_state_comes_back(bundle, tmp_path)


def assert_state_comes_back(bundle: Path, tmp_path: Path) -> None:
    """Windows of 8 in rings of 23 that have turned four times, beside full layers."""
    model = edgec.load(bundle)
    assert {state.layout for state in model.bundle.manifest.states} == {"ring", "full"}
    model.session.prefill(TOKENS, 0)
    model.save_session(tmp_path / "s")
    other = model.new_session()
    other.session.prefill(TOKENS[::-1], 0)
    other.load_session(tmp_path / "s")
    for start in (len(TOKENS), len(TOKENS) - 9):
        here, there = (m.session.forward(NEXT, start, range(3)) for m in (model, other))
        assert np.array_equal(here, there) and np.ptp(here) > 0
    assert tensor_bytes(tmp_path / "s") < sum(state.bytes for state in model.bundle.manifest.states)


def tensor_bytes(file: Path) -> int:
    """Bytes after a safetensors header, which names each tensor and outweighs states as small as these."""
    content = file.read_bytes()
    return len(content) - 8 - int.from_bytes(content[:8], "little")
