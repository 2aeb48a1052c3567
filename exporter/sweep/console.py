"""``edgec sweep`` at the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.text import Text

from edgec.errors import InputError
from edgec.exporter.sweep.sweep import SweepResult, sweep
from edgec.exporter.sweep.table import Row
from edgec.runtime_py.bench.summary import shown
from edgec.terminal import WordTable, make_console

COLUMNS: Mapping[str, Callable[[Row], float | None]] = {
    "size, MB": lambda row: None if row.artifact_bytes is None else row.artifact_bytes / 1e6,
    "KL, nats": lambda row: row.kl_mean_nats,
    "TTFT, ms": lambda row: row.ttft_ms,
    "tokens/s": lambda row: row.decode_tokens_per_s,
    "peak, MB": lambda row: row.peak_rss_mb,
}


def run_sweep(spec: Path, out: Path, engine: str, workers: int, as_json: bool) -> None:
    """Run a sweep and print its table.

    Raises:
        InputError: E563, rows failed.
    """
    console = make_console(stderr=True)
    with console.status("sweeping"):
        result = sweep(spec, out, engine=engine, workers=workers, say=lambda text: console.print(text, markup=False))
    if as_json:
        print(json.dumps({"rows": [asdict(row) for row in result.rows], "files": [str(file) for file in result.files]}))
    else:
        _print(result)
    if result.failed:
        raise _failed(result)


def _print(result: SweepResult) -> None:
    console = make_console()
    console.print(sweep_table(result.rows))
    for row in result.failed:
        where = f"{row.model} {row.recipe} {row.target} {row.device}".strip()
        console.print(f"{where}: {row.error} [{row.error_code}]", markup=False, soft_wrap=True)
    for file in result.files:
        console.print(str(file), soft_wrap=True, markup=False)


def sweep_table(rows: Sequence[Row]) -> WordTable:
    """The rows as a table for the terminal."""
    table = WordTable()
    for name in ("model", "recipe", "target", "device", "status", *COLUMNS):
        table.add_column(
            name, justify="right" if name in COLUMNS else "left", overflow="fold", no_wrap=name == "status"
        )
    for row in rows:
        figures = (value(row) for value in COLUMNS.values())
        texts = ("unavailable" if figure is None else shown(figure) for figure in figures)
        names = (Path(row.model).name, Path(row.recipe).stem, row.target, row.device or "none", row.status)
        table.add_row(*map(Text, names), *texts)
    return table


def _failed(result: SweepResult) -> InputError:
    return InputError(
        f"{len(result.failed)} of {len(result.rows)} rows of the sweep failed.",
        where=str(result.out),
        why=f"the first: {result.failed[0].error}",
        fix="correct the errors in the table and run the same command again; successful steps are kept",
        code="E563",
    )
