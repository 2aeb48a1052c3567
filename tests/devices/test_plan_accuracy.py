"""The benchmark's figures are those of docs/plan.md, and the goals that are said to be met are met."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@cache
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plan_accuracy", ROOT / "benchmarks" / "plan_accuracy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@cache
def scores(leave_out: str) -> dict[str, Any]:
    found: dict[str, Any] = benchmark().accuracy(leave_out)
    return found


@pytest.mark.parametrize("leave_out", ["chip", "device", "model"])
def test_the_document_states_what_the_benchmark_finds(leave_out: str) -> None:
    document = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
    assert benchmark().table(scores(leave_out)) in document


@pytest.mark.parametrize("leave_out", ["chip", "device"])
@pytest.mark.parametrize(
    ("group", "goal"), [("decode cpu", 0.25), ("decode gpu", 0.25), ("decode npu", 0.50), ("prefill", 0.35)]
)
def test_median_errors_meet_the_goals(leave_out: str, group: str, goal: float) -> None:
    assert scores(leave_out)[group].median_error <= goal


@pytest.mark.parametrize("group", ["decode", "prefill", "decode, phones", "prefill, phones"])
def test_the_range_holds_what_it_says(group: str) -> None:
    # 162 rows of 7 chips: half a percentage point is less than one row in a hundred.
    assert scores("chip")[group].coverage >= 0.795


def test_the_regression_beats_one_share_per_unit() -> None:
    for group in ("decode", "prefill"):
        assert scores("chip")[group].median_error < scores("chip")[group].plain_error
