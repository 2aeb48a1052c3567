"""The benchmarks of compressed weights on little: what they must find whatever the speed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks import compression_quality, palettization
from benchmarks.quality_parts.subjects import WINDOW


def test_tables_are_compared_on_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(palettization, "LAYER", ((32, 256),))
    monkeypatch.setattr(palettization, "LAYERS", 1)
    monkeypatch.setattr(palettization, "PART_ROWS", 32)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    (row,) = palettization.measure([2], [2])
    assert palettization.weights() == 32 * 256 and row.full_s is not None and row.theirs_full_s is not None
    # scikit-learn's k-means, which coremltools takes for groups as small as these, ends in local optima
    assert 0.9 < row.error_ratio < 1.005
    assert "| 2 |" in palettization.line(row)


@pytest.mark.parametrize(("speedup", "error", "passed"), [(10.0, 1.0, True), (9.9, 1.0, False), (50.0, 1.01, False)])
def test_the_goal_is_speed_and_no_more_error(speedup: float, error: float, passed: bool) -> None:
    assert palettization.Row(4, 1.0, speedup, speedup, error, None, None).passed is passed


def test_a_row_of_quality_against_itself_is_lossless() -> None:
    windows = [torch.randint(0, 7, (1, WINDOW)) for _ in range(2)]
    reference = torch.randn(2 * WINDOW, 7).log_softmax(-1)
    row = compression_quality._row("float", False, reference, reference, windows, None)
    assert row.kl == pytest.approx(0.0, abs=1e-6) and row.same_top1 == 1.0
    wanted = [reference[i - 1, token] for i, token in enumerate(torch.cat(windows, 1)[0].tolist()) if i % 256]
    assert row.nats == pytest.approx(-float(torch.stack(wanted).mean()), rel=1e-5)
    assert "32 (float)" in compression_quality.line(row)


def test_every_form_and_recipe_makes_passes() -> None:
    known: list[Any] = [torch.zeros(1, 8, dtype=torch.int64)]
    cases = [*compression_quality.forms(known), *compression_quality.recipes(known)]
    assert all(passes for _, passes, _ in cases) and {calibrated for _, _, calibrated in cases} == {True, False}
    assert {name for name, _, _ in cases} >= {"int4 channel", "recipe `lut4`", "2-bit balanced per 1 channels"}
