"""What exports of small and large decoders cost: python -m benchmarks.scale [--only NAME[:BITS] ...] [--json FILE].

Published shapes with random weights, each in 4 and in 2 bits for the CPU of a phone, one after the other, each in a
process of its own with an empty stage cache (``export_cost.py``): processor seconds, time on the clock, peak memory
and the artifact's size, against what edgec forecasts and against the goals. Forecasts are estimated; everything else
is measured. ``--layers 2`` tries it on the first layers only, to which the goals do not apply.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.export_cost import ExportCost, Settings, architecture, cut, export_cost
from benchmarks.forecasts import export_peak_forecast, planned_footprint
from benchmarks.harness.grid import Grid
from edgec.errors import EdgecError

TARGET, CONTEXT = "android-cpu", 2048
RECIPES: Mapping[int, str] = {4: "4bit", 2: "balanced2"}
# CPU seconds of an export, where there is a goal.
GOAL_CPU_S: Mapping[str, float | None] = {
    "smollm2-135m": 54.0,
    "qwen3-0.6b": 87.0,
    "qwen3-1.7b": 400.0,
    "qwen3-4b": None,
}
_MOST_BYTES = 16_000_000_000


@dataclass(frozen=True)
class ScaleRow:
    """One export.

    Attributes:
        name: the shape, of ``architectures/``.
        bits: of the linear layers.
        whole: all layers were exported, so that the goals apply.
        cost: measured.
        forecast_peak_bytes: of the export, estimated before it began.
        planned_artifact_bytes: the high end of ``edgec plan``'s estimate.
    """

    name: str
    bits: int
    whole: bool
    cost: ExportCost
    forecast_peak_bytes: int
    planned_artifact_bytes: int

    @property
    def goal_cpu_s(self) -> float | None:
        """The most processor seconds, where there is a goal."""
        return GOAL_CPU_S[self.name] if self.whole else None

    @property
    def goal_peak_bytes(self) -> int | None:
        """The most resident memory: 1.3 times the weights in bfloat16 and 1.5 GB, and never 16 GB."""
        return min(13 * self.cost.bf16_bytes // 10 + 1_500_000_000, _MOST_BYTES) if self.whole else None

    @property
    def reached(self) -> bool | None:
        """Whether every goal that applies was reached; None where none does."""
        cpu, peak = self.goal_cpu_s, self.goal_peak_bytes
        figures: tuple[tuple[float | None, float | None], ...] = (
            (self.cost.cpu_s, cpu),
            (self.cost.peak_bytes, peak),
        )
        judged = [value <= most for value, most in figures if value is not None and most is not None]
        return all(judged) if judged else None

    def to_json(self) -> dict[str, object]:
        """The row as plain data, with its goals."""
        goals = {"goal_cpu_s": self.goal_cpu_s, "goal_peak_bytes": self.goal_peak_bytes, "reached": self.reached}
        return {**asdict(self), **goals}


def measured(name: str, bits: int, layers: int | None, folder: Path) -> ScaleRow:
    """Forecast one export, then make it."""
    recipe = RECIPES[bits]
    config = cut(architecture(name), layers, folder)
    forecast = export_peak_forecast(config, recipe)
    planned = planned_footprint(json.loads(config.read_text()), recipe, CONTEXT)
    cost = export_cost(name, Settings(recipe=recipe, target=TARGET, context=CONTEXT, layers=layers))
    return ScaleRow(name, bits, layers is None, cost, forecast, round(planned.size_bytes.high))


def chosen(only: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The exports that ``--only`` names, as NAME or NAME:BITS, smallest first; all where it names none.

    Raises:
        ValueError: it names one that is not there.
    """
    cells = [(name, bits) for name in GOAL_CPU_S for bits in RECIPES]
    known = {name for name, _ in cells} | {f"{name}:{bits}" for name, bits in cells}
    if unknown := sorted(set(only) - known):
        raise ValueError(f"not among {', '.join(sorted(known))}: {', '.join(unknown)}")
    return (cell for cell in cells if not only or cell[0] in only or f"{cell[0]}:{cell[1]}" in only)


def table(rows: Sequence[ScaleRow]) -> str:
    """The rows as a Markdown table."""
    heads = (
        "model",
        "bits",
        "weights in bfloat16, GB",
        "CPU s (goal)",
        "wall s",
        "peak, GB (forecast; goal)",
        "artifact, MB (planned, at most)",
        "goals",
    )
    return Grid("", heads, tuple(map(_cells, rows))).markdown(0)


def _cells(row: ScaleRow) -> tuple[str, ...]:
    cost = row.cost
    goal = "no goal" if row.goal_cpu_s is None else f"{row.goal_cpu_s:.0f}"
    peak_goal = "no goal" if row.goal_peak_bytes is None else _gigabytes(row.goal_peak_bytes)
    return (
        cost.model,
        str(row.bits),
        _gigabytes(cost.bf16_bytes),
        f"{cost.cpu_s:.0f} ({goal})",
        f"{cost.wall_s:.0f}",
        f"{_gigabytes(cost.peak_bytes)} ({_gigabytes(row.forecast_peak_bytes)}; {peak_goal})",
        f"{cost.artifact_bytes / 1e6:,.0f} ({row.planned_artifact_bytes / 1e6:,.0f})",
        {True: "reached", False: "missed", None: ""}[row.reached],
    )


def _gigabytes(size: int | None) -> str:
    return "unavailable" if size is None else f"{size / 1e9:.2f}"


def main(write: Callable[[str], None] = print) -> None:
    """Export one after the other; after each, print the table so far and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME[:BITS]", help=", ".join(GOAL_CPU_S))
    parser.add_argument("--layers", type=int, help="only the first layers, to try it")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    options = parser.parse_args()
    try:
        cells = list(chosen(options.only))
    except ValueError as error:
        parser.error(str(error))
    rows: list[ScaleRow] = []
    failed: dict[str, str] = {}
    for name, bits in cells:
        try:
            with TemporaryDirectory() as folder:
                rows.append(measured(name, bits, options.layers, Path(folder)))
        except (EdgecError, subprocess.CalledProcessError) as error:
            failed[f"{name}:{bits}"] = str(error)
        write(table(rows) + "".join(f"\nnot measured: {cell}: {why}" for cell, why in failed.items()) + "\n")
        if options.json:
            told = {"target": TARGET, "rows": [row.to_json() for row in rows], "not_measured": failed}
            options.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
