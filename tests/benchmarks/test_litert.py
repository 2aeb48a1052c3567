"""The comparison in LiteRT-LM's engine: what is counted, chosen and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import litert
from benchmarks.harness.processes import Cost, Done
from benchmarks.litert import WAYS, Row, Spread, Way, artifact, measure, same_start, spread, table


@pytest.mark.parametrize(
    ("made", "same"), [("a cat", 5), ("a cat sat", 5), ("a cow", 3), ("", 0), ("b", 0), ("a c", 3)]
)
def test_characters_count_up_to_the_first_that_differs(made: str, same: int) -> None:
    assert same_start(made, "a cat") == same


def test_a_spread_is_the_median_between_the_extremes() -> None:
    assert spread([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)
    assert spread([]) is None


def test_of_a_bundle_for_litert_the_file_is_run(tmp_path: Path) -> None:
    host, packed, single = tmp_path / "host.edgec", tmp_path / "android.edgec", tmp_path / "stock.litertlm"
    for folder in (host, packed):
        folder.mkdir()
    single.touch()
    (packed / "model.litertlm").touch()
    assert [artifact(path) for path in (host, packed, single)] == [host, packed / "model.litertlm", single]


def test_the_ways_take_turns_and_their_figures_stay_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def export(command: list[Any], *, stdin: dict[str, Any], environment: Any) -> Done:
        Path(stdin["out"]).write_bytes(b"x" * (7 if "recipe" in stdin else 9))
        return Done('{"peak_bytes": 5}', Cost(1.0, 2.0))

    def worker(module: str, job: dict[str, Any]) -> dict[str, Any]:
        if "questions" in job:
            return {"written": ["ab"] * 2}
        asked.append((Path(job["file"]).name, job["threads"]))
        return {"ttft_ms": [float(len(asked))], "tokens_per_s": [1.0]}

    monkeypatch.setattr(litert, "run", export)
    monkeypatch.setattr(litert, "run_worker", worker)
    monkeypatch.setattr(litert, "float_answers", lambda folder: ["abcd"] * 4)
    ways = [Way("one", ("recipe", "r"), ".litertlm"), Way("two", ("target", "t"), ".litertlm")]
    rows = measure(tmp_path, tmp_path / "build", ways)
    turn = [("one.litertlm", 1), ("one.litertlm", 2), ("two.litertlm", 1), ("two.litertlm", 2)]
    assert asked == turn * 3
    assert [(row.way, row.file_bytes, row.peak_bytes, row.export_cpu_s) for row in rows] == [
        ("one", 7, 5, 2.0),
        ("two", 9, 5, 2.0),
    ]
    assert rows[0].ttft_ms == {1: (5.0, 1.0, 9.0), 2: (6.0, 2.0, 10.0)}
    assert (rows[0].same_characters, rows[0].float_characters) == (1, 4), "two of four answers came"


def test_the_table_has_a_row_for_each_way() -> None:
    times: dict[int, Spread | None] = {1: (20.0, 10.0, 30.0), 2: None}
    shown = table([Row(way.name, 120.4, 10**9, 4_400_000, times, times, 31.5, 190.0) for way in WAYS])
    assert "| edgec, host | 4.4 | 120 | 1,000 | 20 / unavailable | 20 / unavailable | 32 of 190 |" in shown
    assert len(shown.splitlines()) == 2 + len(WAYS)
