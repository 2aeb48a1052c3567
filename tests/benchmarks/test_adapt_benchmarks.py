"""The benchmarks of shared KV and of training on little: what they must find whatever the speed."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import adapt_speed, quality_ablation, quality_adapt, shared_kv
from benchmarks.harness.models import TINY
from edgec.exporter.recipes.file import load_recipe


def row(kv: int, ttft: float, planned: int) -> shared_kv.Row:
    plain = shared_kv.Way(1000, 1000, 8000, (99.0, 100.0, 101.0))
    return shared_kv.Row("m", 8, 5, 512, 1, plain, shared_kv.Way(1000, planned, kv, (ttft,) * 3))


@pytest.mark.parametrize(
    ("kv", "ttft", "planned", "missed"),
    [(5000, 65.0, 1020, set()), (5001, 65.0, 1020, {"kv"}), (5000, 66.0, 1020, {"ttft"}), (5000, 65.0, 960, {"size"})],
)
def test_goals_of_shared_kv(kv: int, ttft: float, planned: int, missed: set[str]) -> None:
    measured = row(kv, ttft, planned)
    assert {name for name, met in measured.goals.items() if not met} == missed
    assert ("| met |" in shared_kv.table([measured])) == (not missed)


@pytest.mark.slow
def test_a_tiny_model_is_measured_both_ways(tmp_path: Path) -> None:
    measured = shared_kv.measure(TINY, tmp_path, prompt=32, threads=1, rounds=1)
    assert measured.kept == 1 and measured.layers == 2 and measured.goals["kv"]
    assert len(measured.plain.ttft_ms) == len(measured.shared.ttft_ms) >= 5
    assert measured.shared.file_bytes < measured.plain.file_bytes


def trained(*nats: float) -> quality_adapt.Row:
    curve = tuple((1000 * step, value) for step, value in enumerate(nats))
    return quality_adapt.Row("m", "f", nats[0], nats[-1], 1.0, 0.9, curve[-1][0], 0.10, curve)


def test_the_goal_is_reached_where_it_is_kept() -> None:
    just = 1.0 + math.log1p(0.0999)
    assert trained(3.0, 1.2, just, just).tokens_to_goal == 2000
    assert trained(3.0, just, 1.2, just).tokens_to_goal == 3000
    assert trained(3.0, just, just, 1.2).tokens_to_goal is None
    assert trained(3.0, 1.0 + math.log1p(0.25)).excess == pytest.approx(0.25)
    assert trained(3.0, 0.9 + math.log1p(0.25)).excess_over_best == pytest.approx(0.25)
    assert "not reached" in quality_adapt.table([trained(3.0, 2.0)])


def test_every_form_has_its_recipe() -> None:
    for form in (*quality_adapt.FORMS, *quality_ablation.VARIATIONS):
        assert load_recipe(form.recipe).name


def test_runs_of_unequal_length_are_not_compared(tmp_path: Path) -> None:
    for name, tokens in (("float", 2000), ("form", 1000)):
        (tmp_path / name).mkdir()
        curve = [{"tokens": seen, "held_out": 2.0} for seen in (0, tokens)]
        (tmp_path / name / "training.json").write_text(json.dumps({"curve": curve}))
    subject, form = quality_adapt.SUBJECTS["tiny-stories"], quality_adapt.Form("form", "4bit")
    with pytest.raises(SystemExit, match="not comparable"):
        quality_adapt.compared(subject, form, tmp_path / "form", tmp_path / "float", tmp_path / "float")


def test_the_best_float_model_is_the_one_that_learned_best(tmp_path: Path) -> None:
    for name, nats in (("float", (2.0, 1.5, 1.7)), ("teacher", (2.0, 1.6, 1.6)), ("form", (4.0, 3.0, 1.8))):
        (tmp_path / name).mkdir()
        curve = [{"tokens": 1000 * step, "held_out": value} for step, value in enumerate(nats)]
        (tmp_path / name / "training.json").write_text(json.dumps({"curve": curve}))
    subject, form = quality_adapt.SUBJECTS["stories260K"], quality_adapt.Form("form", "4bit")
    result = quality_adapt.compared(subject, form, *(tmp_path / name for name in ("form", "float", "teacher")))
    assert (result.before, result.after, result.baseline, result.best) == (4.0, 1.8, 1.7, 1.5)


def test_an_ablation_is_read_against_its_first_row() -> None:
    rows = [quality_ablation.Row("m", name, 5.0, nats, 1000) for name, nats in (("first", 2.0), ("worse", 2.1))]
    first, second = quality_ablation.table(rows).splitlines()[2:]
    assert "+0.0%" in first and f"{math.expm1(0.1):+.1%}" in second


def test_a_form_better_than_the_float_model_is_drawn_at_the_edge() -> None:
    better, only_float = trained(3.0, 1.2, 0.8), replace(trained(3.0, 1.0), model="other", form="float")
    chart = quality_adapt.plot([better, only_float])
    assert chart.count("<polyline") == 1 and ">0.1<" in chart and "other" not in chart


def test_a_row_of_steps_has_its_median_and_rate() -> None:
    row = adapt_speed.Row(adapt_speed.Case("smol", 8, 512), "a GPU", (0.5, 0.25, 1.0), 2_000_000_000)
    assert row.deciles_ms == pytest.approx((300, 500, 900))
    assert row.tokens_per_s == pytest.approx(8192)
    assert "| smol | 8 x 512 | 500 [300 .. 900] | 8,192 | 2.00 | a GPU |" in adapt_speed.table([row])


@pytest.mark.slow
def test_steps_of_the_example_are_timed(tmp_path: Path) -> None:
    row = adapt_speed.measured(adapt_speed.Case("example", 1, 16), 3, tmp_path)
    assert len(row.steps_s) == 3 and all(seconds > 0 for seconds in row.steps_s)
    assert row.peak_bytes is not None and row.peak_bytes > 1e6
