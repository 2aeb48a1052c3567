"""The cost of an export: what is measured, and that a wide model stays within the memory goal."""

from __future__ import annotations

import pytest

from benchmarks.export_cost import Settings, export_cost


def test_settings_are_handed_on_as_arguments() -> None:
    asked = Settings(recipe="balanced2", target="android-cpu", layers=2)
    wanted = ["--recipe", "balanced2", "--target", "android-cpu", "--threads", "1", "--layers", "2"]
    assert asked.arguments == wanted


@pytest.mark.slow
def test_the_peak_is_that_of_the_weights_and_the_tools() -> None:
    cost = export_cost("qwen3-1.7b", Settings(target="android-cpu", layers=3))
    assert cost.peak_bytes is not None
    weights = cost.bf16_bytes
    # The tools take 0.45 GB, a graph and its artifact the rest; the weights in float32 as well would be 1.8 GB more.
    assert weights < cost.peak_bytes < 1.3 * weights + 1.5e9
