"""benchmarks/results/README.md: every figure of the committed runs, made from them; a test holds them equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from benchmarks.harness import goals
from benchmarks.harness.grid import Grid, megabytes, number
from benchmarks.harness.results import TIME, Results
from benchmarks.harness.speed_page import conditions, shown_models, titled
from benchmarks.harness.speed_tables import speed_grid

_HEAD = """# Every row

All figures behind [speed.md](../../docs/speed.md), which says what they mean; how each is obtained, and its spread:
[benchmarking.md](../../docs/benchmarking.md). Made by `python -m benchmarks.harness.publish`. "Shared KV" is edgec's
model with shared caches, the other columns the model as it is."""


def rows_page(runs: Mapping[str, Sequence[Results]]) -> str:
    """The page with each run of each class of processors, the newest first."""
    return "\n\n".join([_HEAD, *(_class_of(processor, made) for processor, made in runs.items())]) + "\n"


def _class_of(processor: str, runs: Iterable[Results]) -> str:
    return "\n\n".join([f"## {processor}", *(part for run in runs for part in _run(run))])


def _run(results: Results) -> list[str]:
    grids = [speed_grid(results, model, judged=False) for model in shown_models(results)]
    # What holds for several models is said once.
    notes = [f"- {note}" for note in dict.fromkeys(note for grid in grids for note in grid.notes)]
    tables = [titled(replace(grid, notes=())) for grid in grids]
    return [conditions(results), *tables, "\n".join(notes), titled(_costs(results)), *_missing(results)]


def _costs(results: Results) -> Grid:
    """Exports, files and memory in one table."""
    heads = ("", "export CPU s", "export peak MB", "file MB", "peak memory MB")
    keys = dict.fromkeys((a.model, a.subject) for a in results.artifacts)
    rows = tuple(_cost_row(results, *key) for key in keys)
    return Grid("Compiling, files and memory", heads, rows, (_memory_goal(),))


def _memory_goal() -> str:
    limits = " and ".join(f"{limit:g} for {model}" for model, limit in goals.EXPORT_CPU_S.items())
    return f"Peak memory: Python process / C++ runner. Goals: export CPU s {limits}; runner 1.15 x file + KV + 60 MB."


def _cost_row(results: Results, model: str, subject: str) -> tuple[str, ...]:
    export = next((e for e in results.exports if (e.model, e.subject) == (model, subject)), None)
    artifact = next(a for a in results.artifacts if (a.model, a.subject) == (model, subject))
    peaks = [megabytes(m.peak_bytes) for m in results.memory if (m.model, m.subject) == (model, subject)]
    spent = (number(export.cpu_s), megabytes(export.peak_bytes)) if export else ("", "")
    return (f"{model}, {subject}", *spent, megabytes(artifact.file_bytes), " / ".join(peaks))


def _missing(results: Results) -> list[str]:
    missing = ", ".join(f.part for f in results.failures if f.part != TIME)
    fewer = ", ".join(f.what for f in results.failures if f.part == TIME)
    said = ([f"Not measured: {missing}."] if missing else []) + ([f"In the time there was, {fewer}."] if fewer else [])
    return [" ".join(said)] if said else []
