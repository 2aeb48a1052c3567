"""``python -m benchmarks.harness.publish`` makes the last run the repository's: results, plots, pages.

The README's picture is of the first class of processors alone.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from os.path import relpath
from pathlib import Path

from benchmarks.harness.plots import context_plot, speed_plot
from benchmarks.harness.processes import ROOT
from benchmarks.harness.results import FOLDER, PROCESSORS, Results, committed_runs, processor_of, read_results
from benchmarks.harness.rows_page import rows_page
from benchmarks.harness.speed_page import inserted, plot_of, section
from benchmarks.harness.subjects import USUAL

SPEED_PAGE = ROOT / "docs" / "speed.md"
ROWS_PAGE = FOLDER / "README.md"
README_PLOT = ROOT / "docs" / "images" / "speed.svg"
_PLOTTED = ("edgec", "OpenVINO 4 bit", "ExecuTorch 8da4w", "llama.cpp Q4_0", "MNN 4 bit")


def publish(results: Results, folder: Path) -> Path:
    """Write the results and their plot, and return the file, named by time, machine and class of processor.

    Raises:
        ValueError: the run was a quick one, which says nothing about speed.
    """
    if results.quick:
        raise ValueError("a quick run is not for publishing")
    machine = re.sub(r"[^a-z0-9]+", "-", f"{results.machine.cpu} {results.machine.cores} cores".lower()).strip("-")
    began, kind = results.date[:16].replace(":", ""), processor_of(results.machine).replace("_", "-")
    path = folder / f"{began}-{machine}-{kind}.json"
    folder.mkdir(exist_ok=True)
    path.write_text(results.model_dump_json() + "\n")
    if results.contexts:
        plot_of(path).write_text(context_plot(results))
    return path


def with_newest_sections(page: str) -> str:
    """The speed page with the newest committed results of every model in every class of processors."""
    for processor in PROCESSORS:
        page = inserted(page, processor, _sections(processor))
    return page


def _sections(processor: str) -> str:
    """Each model of a class from the newest run that has it; the plot is the newest run's."""
    runs = committed_runs(processor)
    if not runs:
        return section(None, None)
    plot = plot_of(runs[0][0])
    shown = Path(relpath(plot, SPEED_PAGE.parent)).as_posix() if plot.is_file() else None
    return "\n\n".join(section(run, None if index else shown) for index, (_, run) in enumerate(runs))


def newest_rows() -> str:
    """The page of every row, of all committed runs that the speed page has."""
    return rows_page({processor: [run for _, run in committed_runs(processor)] for processor in PROCESSORS})


def readme_plot(results: Results) -> str:
    """The README's picture: the usual model with one thread, a line for each runtime."""
    return speed_plot(results, USUAL[0], _PLOTTED, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Publish build/bench/results.json, or another file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.harness.publish", description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=ROOT / "build" / "bench" / "results.json")
    results = read_results(parser.parse_args(arguments).results)
    print(publish(results, FOLDER))
    if processor_of(results.machine) == PROCESSORS[0]:
        README_PLOT.write_text(readme_plot(results))
    SPEED_PAGE.write_text(with_newest_sections(SPEED_PAGE.read_text()))
    ROWS_PAGE.write_text(newest_rows())
    return 0


if __name__ == "__main__":
    sys.exit(main())
