"""The sections of docs/speed.md, made from the newest results of each class of processors; a test holds them equal.

Each says how many times as fast edgec is as the best of its peers; all figures stand in `rows_page`.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness.grid import Grid
from benchmarks.harness.results import Results
from benchmarks.harness.speed_tables import Table, ratio_grid
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
    picture = ["", f"![Time to first token and decoding against context]({plot})"] if plot else []
    compared = [model for model in shown_models(results) if Table(results, model).peers]
    ratios = [titled(ratio_grid(results, compared))] if compared else []
    return "\n".join([conditions(results), "", *ratios, *picture])


def shown_models(results: Results) -> list[str]:
    """The models of a run that the pages show, in the order of measuring."""
    return [model.name for model in results.models if model.name in _SHOWN]


def conditions(results: Results) -> str:
    """When and where a run was made, and what holds for all its rows."""
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


def titled(grid: Grid) -> str:
    """A table under its title in bold, by which a test finds it."""
    return f"**{grid.title}**\n\n{grid.markdown(0)}"


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
