"""The report of a run: tables for the terminal and in Markdown, the results file, the plots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from benchmarks.harness.cost_tables import agreement_grid, context_grid, export_grid, failure_grid, memory_grid
from benchmarks.harness.grid import Grid
from benchmarks.harness.plots import all_plots
from benchmarks.harness.profile_tables import profile_grids
from benchmarks.harness.results import Results
from benchmarks.harness.script_tables import script_grids
from benchmarks.harness.speed_tables import limits_grid, speed_grid, spread_grid

_WIDTH = 160


def grids(results: Results) -> list[Grid]:
    """Every table that has a row."""
    return [grid for grid in _all(results) if grid.rows]


def _all(results: Results) -> Iterator[Grid]:
    yield limits_grid(results)
    yield agreement_grid(results)
    yield from (speed_grid(results, model.name) for model in results.models)
    yield export_grid(results)
    yield memory_grid(results)
    yield context_grid(results)
    yield from profile_grids(results)
    yield from script_grids(results)
    yield spread_grid(results)
    yield failure_grid(results)


def print_report(results: Results) -> None:
    """Print all tables on the terminal."""
    console = Console(width=None if Console().is_terminal else _WIDTH)
    for grid in grids(results):
        console.print(grid.rich())


def markdown(results: Results) -> str:
    """All tables in Markdown, after the machine, the versions and the date."""
    machine, versions = results.machine, ", ".join(f"{name} {text}" for name, text in results.versions.items())
    before, after = ("unavailable" if load is None else f"{load:.2f}" for load in machine.load_average)
    head = [
        "# Measured side by side",
        "",
        f"{results.date}, {machine.cpu}, {machine.cores} cores, {machine.memory_bytes / 1e9:.0f} GB, {machine.system}, "
        f"{' '.join(machine.features)}; load average {before} before, {after} after. {versions}.",
    ]
    quick = ["", "A quick run of tiny models: it checks the harness and says nothing about speed."]
    return "\n".join(
        [*head, *(quick if results.quick else []), "", *(f"{grid.markdown(2)}\n" for grid in grids(results))]
    )


def save_report(results: Results, folder: Path, name: str = "results") -> list[Path]:
    """Write NAME.json, NAME.md and the plots, NAME.svg; returns their paths."""
    files = {f"{name}.json": results.model_dump_json(indent=1), f"{name}.md": markdown(results)}
    if plots := all_plots(results):
        files[f"{name}.svg"] = plots
    for file, text in files.items():
        (folder / file).write_text(text)
    return [folder / file for file in files]
