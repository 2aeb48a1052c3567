"""The table of exports by size: which are chosen, and what counts as a goal that was reached."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import scale
from benchmarks.export_cost import ExportCost, Settings, architecture
from benchmarks.forecasts import export_peak_forecast, planned_footprint
from benchmarks.scale import ScaleRow, chosen, table

COST = ExportCost("qwen3-1.7b", "4bit", "android-cpu", 1, 2048, (), 399.0, 410.0, 5_900_000_000, 3_440_000_000, 10**9)
ROW = ScaleRow("qwen3-1.7b", 4, True, COST, 5_000_000_000, 1_100_000_000)


def test_all_or_the_named_ones_are_chosen() -> None:
    assert len(list(chosen([]))) == 8
    assert list(chosen(["qwen3-4b", "smollm2-135m:2"])) == [("smollm2-135m", 2), ("qwen3-4b", 4), ("qwen3-4b", 2)]
    with pytest.raises(ValueError, match="qwen3-9b"):
        chosen(["qwen3-9b"])


@pytest.mark.long
def test_every_shape_is_there_and_has_forecasts() -> None:
    assert all(architecture(name).is_file() for name, _ in chosen([]))
    for name, bits in chosen(["smollm2-135m"]):
        config = architecture(name)
        planned = planned_footprint(json.loads(config.read_text()), scale.RECIPES[bits], scale.CONTEXT)
        assert 0 < planned.size_bytes.low < export_peak_forecast(config, scale.RECIPES[bits])


def test_goals_are_those_of_the_whole_model() -> None:
    assert ROW.goal_peak_bytes == 5_972_000_000 and ROW.reached is True
    assert replace(ROW, cost=replace(COST, cpu_s=401.0)).reached is False
    assert replace(ROW, cost=replace(COST, peak_bytes=6_000_000_000)).reached is False
    assert replace(ROW, whole=False).reached is None
    large = replace(ROW, name="qwen3-4b", cost=replace(COST, bf16_bytes=40_000_000_000))
    assert large.goal_cpu_s is None and large.goal_peak_bytes == 16_000_000_000


def test_the_table_says_what_was_measured_and_what_is_a_goal() -> None:
    assert table([ROW]).splitlines()[-1] == (
        "| qwen3-1.7b | 4 | 3.44 | 399 (400) | 410 | 5.90 (5.00; 5.97) | 1,000 (1,100) | reached |"
    )
    assert "(no goal)" in table([replace(ROW, whole=False)]) and "unavailable" in table(
        [replace(ROW, cost=replace(COST, peak_bytes=None))]
    )


@pytest.mark.long
def test_each_result_is_written_at_once_and_a_failure_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgec.errors import InputError

    def cost(name: str, settings: Settings) -> ExportCost:
        if settings.recipe == "4bit":
            raise InputError("too little memory", code="E190")
        return COST

    monkeypatch.setattr(scale, "export_cost", cost)
    out, said = tmp_path / "scale.json", list[str]()
    monkeypatch.setattr(sys, "argv", ["scale", "--only", "smollm2-135m", "--json", str(out)])
    scale.main(said.append)
    told = json.loads(out.read_text())
    assert [(row["name"], row["bits"]) for row in told["rows"]] == [("smollm2-135m", 2)]
    assert "E190" in told["not_measured"]["smollm2-135m:4"] and "not measured: smollm2-135m:4" in said[-1]
    assert told["rows"][0]["reached"] is False and told["rows"][0]["goal_cpu_s"] == 54.0
