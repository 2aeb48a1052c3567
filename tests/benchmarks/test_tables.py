"""Tables, plots and the speed page say what the results hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.harness.cost_tables import export_grid, memory_grid
from benchmarks.harness.grid import Grid
from benchmarks.harness.publish import (
    README_PLOT,
    ROWS_PAGE,
    SPEED_PAGE,
    newest_rows,
    publish,
    readme_plot,
    with_newest_sections,
)
from benchmarks.harness.report import grids, markdown, print_report, save_report
from benchmarks.harness.results import PROCESSORS, TIME, Failure, Results, committed_runs, processor_of, read_results
from benchmarks.harness.rows_page import rows_page
from benchmarks.harness.speed_page import inserted, markers, section
from benchmarks.harness.speed_tables import ratio_grid, speed_grid
from tests.benchmarks.made_up import RESULTS


def row(grid: Grid, label: str) -> tuple[str, ...]:
    return next(row for row in grid.rows if row[0].startswith(label))


def test_speeds_stand_beside_each_other_with_the_ratio_to_the_best_peer() -> None:
    grid = speed_grid(RESULTS, "q8L")
    assert grid.heads == ("wall, median", "edgec", "peer", "goal", "edgec against the best peer")
    assert row(grid, "prefill of 100")[1:] == ("1,000 / 500", "2,000 / 2,000", "", "2.00x / 4.00x")
    assert row(grid, "decode at position 960")[1:] == ("25 / 50", "50 / -", "40 / 71", "0.50x / -")
    assert any("peer: a remark" in note for note in grid.notes)
    assert any("ratios to the peers decide" in note for note in grid.notes)


def test_the_page_says_ratios_once_and_what_holds_for_several_models_once() -> None:
    assert ratio_grid(RESULTS, ["q8L"]).heads == ("", "q8L")
    assert row(ratio_grid(RESULTS, ["q8L"]), "prefill of 100") == ("prefill of 100 tokens", "2.00x / 4.00x")
    assert speed_grid(RESULTS, "q8L", judged=False).heads == ("wall, median", "edgec", "peer")
    page = ROWS_PAGE.read_text()
    assert page.count("positions are dropped by copying") == 2, "once for each class of processors"


def test_peers_that_were_not_run_stand_below_the_table_with_the_reason() -> None:
    missed = Failure(part="q8L: third", what="not run: no wheel", optional=True)
    other = Failure(part="memory of q8L: third", what="not run: no wheel", optional=True)
    failed = Failure(part="q8L: fourth", what="out of memory")
    results = RESULTS.model_copy(update={"failures": [missed, missed, other, failed]})
    notes = speed_grid(results, "q8L").notes
    assert [note for note in notes if "third" in note] == ["third: not run: no wheel"]
    assert not any("fourth" in note for note in notes)


def test_shares_of_the_machine_are_computed() -> None:
    grid = speed_grid(RESULTS, "q8L")
    assert row(grid, "decode: % of read bandwidth")[1:3] == ("50 / 100", "-")
    assert row(grid, "longest prefill: % of int8 peak")[1:3] == ("50 / 100", "25 / 25")


def test_costs_have_their_goals() -> None:
    assert export_grid(RESULTS).rows == (("q8L", "edgec", "50", "51", "1,000", "", "2,500"),)
    assert [r[-1] for r in memory_grid(RESULTS).rows] == ["215", "215"]
    assert memory_grid(RESULTS).rows[1][1:5] == ("edgec, C++ runner", "100", "160", "unavailable")


def test_every_table_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_report(RESULTS)
    shown = capsys.readouterr().out
    text = markdown(RESULTS)
    for grid in grids(RESULTS):
        assert grid.title in shown.replace("\n", "")
        assert grid.title in text
    assert {"benchmarks/prefix.py", "Long context (measured)"} <= {grid.title for grid in grids(RESULTS)}
    files = save_report(RESULTS, tmp_path)
    assert [file.name for file in files] == ["results.json", "results.md", "results.svg"]
    assert read_results(files[0]) == RESULTS
    assert ElementTree.parse(files[2]).getroot().tag.endswith("svg")


def test_rows_of_a_script_stand_beside_each_other() -> None:
    rows = [{"model": "a", "ms": {"median": 1.25}}, {"model": "b", "ms": {"median": 1000.0}, "note": "odd"}]
    results = RESULTS.model_copy(update={"scripts": {"prefix": {"obtained": "measured", "rows": rows}}})
    grid = next(grid for grid in grids(results) if grid.title == "benchmarks/prefix.py")
    assert grid.rows == (("model", "a", "b"), ("ms median", "1.25", "1,000"), ("note", "-", "odd"))
    assert grid.notes == ("obtained: measured",)
    many = results.model_copy(update={"scripts": {"prefix": {"rows": [{"model": "a", "ms": 1.0}] * 3}}})
    grid = next(grid for grid in grids(many) if grid.title == "benchmarks/prefix.py")
    assert (grid.heads, grid.rows) == (("model", "ms"), (("a", "1"),) * 3)


def test_nothing_is_written_for_what_was_not_measured() -> None:
    bare = RESULTS.model_copy(update={"contexts": [], "profiles": [], "scripts": {}, "memory": []})
    titles = " ".join(grid.title for grid in grids(bare))
    assert "Long context" not in titles
    assert not any(title.startswith("Not measured") for title in titles)
    assert "where the time goes" not in titles


def test_the_pages_are_what_the_committed_results_make() -> None:
    page = SPEED_PAGE.read_text()
    assert with_newest_sections(page) == page
    assert ROWS_PAGE.read_text() == newest_rows()


def test_the_section_names_machine_date_and_losses() -> None:
    text = section(RESULTS, "benchmarks/results/x.svg")
    assert "2026-01-02" in text
    assert "Chip 9" in text
    assert "executorch 1.5.1" in text
    assert "0.50x" in text
    assert "(benchmarks/results/x.svg)" in text
    begin, end = markers("avx2")
    page = f"before {begin}\nold\n{end} after"
    assert inserted(page, "avx2", text) == f"before {begin}\n{text}\n{end} after"
    with pytest.raises(ValueError, match="markers of the section of avx512_vnni"):
        inserted(page, "avx512_vnni", text)


def test_the_page_of_rows_has_the_figures_and_what_is_missing() -> None:
    failed = Failure(part="q8L: fourth", what="out of memory")
    text = rows_page({"avx2": [RESULTS.model_copy(update={"failures": [failed]})], "avx512_vnni": []})
    assert "| prefill of 100 tokens, ms | 1,000 / 500 | 2,000 / 2,000 |" in text
    assert "**Compiling, files and memory**" in text and "Not measured: q8L: fourth." in text
    assert text.index("## avx2") < text.index("## avx512_vnni")


def test_the_readmes_picture_is_of_the_committed_results() -> None:
    path, _ = committed_runs(PROCESSORS[0])[0]
    assert readme_plot(read_results(path)) == README_PLOT.read_text()


def test_each_class_of_processors_has_its_own_newest_results(tmp_path: Path) -> None:
    newer = RESULTS.machine.model_copy(update={"features": ["avx2", "avx512_vnni"]})
    publish(RESULTS, tmp_path)
    publish(RESULTS.model_copy(update={"date": "2026-01-03T00:00:00+00:00", "machine": newer}), tmp_path)
    names = [path.name for name in PROCESSORS for path, _ in committed_runs(name, tmp_path)]
    assert names == ["2026-01-03T0000-chip-9-2-cores-avx512-vnni.json", "2026-01-02T0304-chip-9-2-cores-avx2.json"]
    assert processor_of(newer.model_copy(update={"features": []})) == "other"
    assert committed_runs("other", tmp_path) == []


def test_a_model_that_a_newer_run_lacks_is_shown_from_an_older_one(tmp_path: Path) -> None:
    publish(two := run_of("2026-01-02T03:04:05+00:00", "q8L", "q4L"), tmp_path)
    publish(run_of("2026-01-02T05:04:05+00:00", "q8L"), tmp_path)
    publish(run_of("2026-01-01T05:04:05+00:00", "q8L"), tmp_path)
    (_, newest), (_, older) = committed_runs("avx2", tmp_path)
    assert [speed.model for speed in newest.speeds] == ["q8L"] * len(RESULTS.speeds)
    assert {speed.model for speed in older.speeds} == {export.model for export in older.exports} == {"q4L"}
    assert {artifact.model for artifact in older.artifacts} == {memory.model for memory in older.memory} == {"q4L"}
    assert [model.name for model in older.models] == ["q4L"] and older.limits == two.limits
    assert [failure.part for failure in older.failures] == ["q4L: a peer", TIME]


def run_of(date: str, *names: str) -> Results:
    """A run of some models that have the same figures."""

    def each(values: Sequence[Any], key: str = "model") -> list[Any]:
        return [value.model_copy(update={key: name}) for name in names for value in values]

    missed = [Failure(part=f"{name}: a peer", what="not run") for name in names]
    lists = {name: each(getattr(RESULTS, name)) for name in ("artifacts", "exports", "speeds", "memory")}
    failures = [*missed, Failure(part=TIME, what="2 of 3 rounds")]
    models = each(RESULTS.models, "name")
    return RESULTS.model_copy(update={"date": date, "models": models, "failures": failures, **lists})


def test_only_full_runs_are_published(tmp_path: Path) -> None:
    path = publish(RESULTS, tmp_path / "results")
    assert path.name == "2026-01-02T0304-chip-9-2-cores-avx2.json"
    assert read_results(path) == RESULTS
    assert path.with_suffix(".svg").is_file()
    with pytest.raises(ValueError, match="quick"):
        publish(RESULTS.model_copy(update={"quick": True}), tmp_path)
