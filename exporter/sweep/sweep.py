"""``edgec sweep``: exports first, several at once, then measurements, one at a time on each device.

Everything is in one folder: ``bundles/KEY.edgec``, ``done/KEY.json`` (how each step ended), ``runs/KEY.jsonl`` (the
records of a measurement), ``results.jsonl`` and ``results.parquet`` (the table), ``pareto.svg``. Successful steps are
not run again; failed ones are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from edgec.bundle.atomic import typed_os_errors, write_file
from edgec.devices.transport import Say
from edgec.exporter.sweep.engines import SweepEngine, engine_named
from edgec.exporter.sweep.pareto import save_pareto
from edgec.exporter.sweep.spec import (
    Artifact,
    Cell,
    SweepSpec,
    command_options,
    read_spec,
    whole_model,
    whole_path,
    whole_recipe,
)
from edgec.exporter.sweep.step import Done, SweepStep
from edgec.exporter.sweep.table import Row, make_row, write_table

STEP_S = 4 * 3600.0
HERE = ("host", "qemu")


@dataclass(frozen=True)
class SweepResult:
    """A finished sweep."""

    out: Path
    rows: tuple[Row, ...]
    files: tuple[Path, ...]

    @property
    def failed(self) -> tuple[Row, ...]:
        """The rows without a result."""
        return tuple(row for row in self.rows if row.status == "failed")


def sweep(
    spec: Path | str, out: Path | str, *, engine: str = "pool", workers: int = 1, say: Say = lambda text: None
) -> SweepResult:
    """Export and measure a grid of models x recipes x targets x devices.

    Args:
        spec: the TOML file (docs/benchmarking.md#sweeps).
        out: the sweep's folder; one that exists is continued.
        engine: ``pool`` (processes here) or ``ray`` (a cluster).
        workers: steps at once. Measurements on one device never overlap, and those on this machine run alone.
        say: called with how each step ended.

    Raises:
        InputError: E560, the specification is invalid; E156, a bad option; E121 or E122, the folder cannot be written.
        ToolError: E562, Ray is not installed, or its cluster cannot be joined.
    """
    grid, folder, runs_on = read_spec(Path(spec)), Path(out).resolve(), engine_named(engine, workers)
    with typed_os_errors(folder):
        for name in ("bundles", "done", "runs"):
            (folder / name).mkdir(parents=True, exist_ok=True)
    done = [made for made in grid.artifacts if _ended_well(folder, made.key) and _bundle(folder, made).exists()]
    exports = [_export_step(folder, artifact) for artifact in grid.artifacts if artifact not in done]
    _run(runs_on, folder, exports, say)
    measurable = [cell for cell in grid.cells if cell.device and _bundle(folder, cell.artifact).exists()]
    for batch in _batches([cell for cell in measurable if not _ended_well(folder, cell.key)]):
        # "host" means the user's machine, whatever nodes a cluster has.
        engine_of = engine_named("pool", 1) if batch[0].device in HERE else runs_on
        _run(engine_of, folder, [_bench_step(folder, cell) for cell in batch], say)
    return _table(grid, folder)


def _run(engine: SweepEngine, folder: Path, steps: Sequence[SweepStep], say: Say) -> None:
    for done in engine.run(steps):
        write_file(_note(folder, done.key), json.dumps(asdict(done)).encode())
        say(f"{done.key}: {'done' if done.error is None else done.error['code'] + ' ' + done.error['why']}")


def _note(folder: Path, key: str) -> Path:
    return folder / "done" / f"{key}.json"


def _read(folder: Path, key: str) -> Done | None:
    try:
        return Done(**json.loads(_note(folder, key).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _ended_well(folder: Path, key: str) -> bool:
    done = _read(folder, key)
    return done is not None and done.error is None


def _bundle(folder: Path, artifact: Artifact) -> Path:
    return folder / "bundles" / f"{artifact.key}.edgec"


def _export_step(folder: Path, artifact: Artifact) -> SweepStep:
    """The command of an export, with absolute paths, since a cluster's nodes work in other folders."""
    model, recipe = whole_model(artifact.model), whole_recipe(artifact.recipe)
    options = tuple((name, whole_path(value)) for name, value in artifact.options)
    words = ["export", model, "--recipe", recipe, "--target", artifact.target]
    words += ["--out", str(_bundle(folder, artifact)), "--force", *command_options(options)]
    return SweepStep(artifact.key, tuple(words), STEP_S)


def _bench_step(folder: Path, cell: Cell) -> SweepStep:
    words = ["bench", str(_bundle(folder, cell.artifact)), "--device", cell.device]
    words += ["--out", str(folder / "runs" / f"{cell.key}.jsonl"), *command_options(cell.options)]
    return SweepStep(cell.key, tuple(words), STEP_S)


def _batches(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Groups of cells that may run at once: one per phone; those on this machine run alone."""
    here = [cell for cell in cells if cell.device in HERE]
    by_phone: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell not in here:
            by_phone.setdefault(cell.device, []).append(cell)
    yield from ([cell] for cell in here)
    while any(by_phone.values()):
        yield [waiting.pop(0) for waiting in by_phone.values() if waiting]


def _table(grid: SweepSpec, folder: Path) -> SweepResult:
    rows = tuple(
        make_row(
            cell,
            _bundle(folder, cell.artifact),
            exported=_read(folder, cell.artifact.key),
            measured=_read(folder, cell.key) if cell.device else None,
        )
        for cell in grid.cells
    )
    files = (*write_table(rows, folder), save_pareto(rows, folder / "pareto.svg"))
    return SweepResult(folder, rows, files)
