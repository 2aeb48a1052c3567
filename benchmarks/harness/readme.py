"""The sections of docs/speed.md, made from the newest results of each class of processors; a test holds them equal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.harness import goals
from benchmarks.harness.grid import Grid, megabytes, number
from benchmarks.harness.results import TIME, Results
from benchmarks.harness.speed_tables import Table, ratio_grid, speed_grid
from benchmarks.harness.subjects import FEW_BITS, HELD, USUAL

NOTHING = "No results are committed for this version: run `make bench`."
_SHOWN = (*USUAL, *FEW_BITS, *HELD)


def section(results: Results | None, plot: str | None) -> str:
    """The text between the markers.

    Args:
        results: the results of a full run, or None where none are committed.
        plot: path of the plot from the page's folder, or None.
    """
    if results is None:
        return NOTHING
    picture = [f"![Time to first token and decoding against context]({plot})", ""] if plot else []
    models = [model.name for model in results.models if model.name in _SHOWN]
    ratios = ratio_grid(results, [model for model in models if Table(results, model).peers])
    grids = [speed_grid(results, model, judged=False) for model in models]
    tables = [_headed(replace(grid, notes=())) for grid in grids]
    # What holds for several models is said once.
    notes = [f"- {note}" for note in dict.fromkeys(note for grid in grids for note in grid.notes)]
    compared = [_headed(ratios)] if ratios.rows else []
    last = [*notes, "", _headed(_costs(results)), *picture, _closing(results)]
    return "\n".join([_conditions(results), "", *compared, *tables, *last])


def _conditions(results: Results) -> str:
    machine, versions = results.machine, results.versions
    names = ("edgec", "executorch", "torch", "llama-cpp-python")
    said = ", ".join(f"{name} {versions[name]}" for name in names if name in versions)
    loads = " and ".join("unavailable" if load is None else f"{load:.1f}" for load in machine.load_average)
    return (
        f"Measured by `make bench` on {results.date[:10]}: {machine.cpu}, {machine.cores} cores "
        f"({' '.join(machine.features)}), load average before and after {loads}; {said}. Random weights of published "
        "architectures, 4 bits in groups of 32, float16 KV cache, context 1024; wall medians with 1 / 2 threads, each "
        "in processes of its own, the runtimes taking turns."
    )


def _headed(grid: Grid) -> str:
    return f"**{grid.title}**\n\n{grid.markdown(0)}\n"


def _costs(results: Results) -> Grid:
    """Exports, files and memory in one table."""
    heads = ("", "export CPU s", "export peak MB", "file MB", "peak memory MB")
    keys = dict.fromkeys((a.model, a.subject) for a in results.artifacts)
    return Grid(
        "Compiling, files and memory", heads, tuple(_cost_row(results, *key) for key in keys), (_memory_goal(),)
    )


def _memory_goal() -> str:
    limits = " and ".join(f"{limit:g} for {model}" for model, limit in goals.EXPORT_CPU_S.items())
    return f"Peak memory: Python process / C++ runner. Goals: export CPU s {limits}; runner 1.15 x file + KV + 60 MB."


def _cost_row(results: Results, model: str, subject: str) -> tuple[str, ...]:
    export = next((e for e in results.exports if (e.model, e.subject) == (model, subject)), None)
    artifact = next(a for a in results.artifacts if (a.model, a.subject) == (model, subject))
    peaks = [megabytes(m.peak_bytes) for m in results.memory if (m.model, m.subject) == (model, subject)]
    spent = (number(export.cpu_s), megabytes(export.peak_bytes)) if export else ("", "")
    return (f"{model}, {subject}", *spent, megabytes(artifact.file_bytes), " / ".join(peaks))


def _closing(results: Results) -> str:
    missing = ", ".join(f.part for f in results.failures if f.part != TIME)
    fewer = ", ".join(f.what for f in results.failures if f.part == TIME)
    notes = (f" Not measured: {missing}." if missing else "") + (f" In the time there was, {fewer}." if fewer else "")
    return f"How each figure is obtained, and its spread: [benchmarking.md](benchmarking.md).{notes}"


def markers(processor: str) -> tuple[str, str]:
    """The lines before and after the section of a class of processors."""
    name = f"speed of {processor}"
    return f"<!-- {name}: begin; made by python -m benchmarks.harness.publish -->", f"<!-- {name}: end -->"


def inserted(page: str, processor: str, text: str) -> str:
    """The page with this section of a class of processors.

    Raises:
        ValueError: the page lacks the markers.
    """
    begin, finish = markers(processor)
    before, _, rest = page.partition(begin)
    _, end, after = rest.partition(finish)
    if not end:
        raise ValueError(f"the page lacks the markers of the section of {processor}")
    return f"{before}{begin}\n{text}\n{finish}{after}"


def plot_of(results: Path) -> Path:
    """The path of the plot that belongs to a committed results file."""
    return results.with_suffix(".svg")
