"""``edgec sweep`` runs many exports and measurements from one specification."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def sweep(
    spec: Annotated[Path, typer.Argument(help="TOML file: models, recipes, targets, devices.")],
    *,
    out: Annotated[Path, typer.Option(help="The sweep's folder; one that exists is continued.")],
    engine: Annotated[str, typer.Option(help="pool: processes here; ray: a cluster.")] = "pool",
    workers: Annotated[int, typer.Option(help="Steps to run in parallel.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="The table as one JSON object.")] = False,
) -> None:
    """Export and measure a grid of models x recipes x targets x devices; one failure never stops the rest.

    Steps that succeeded are not run again. Writes results.jsonl (and results.parquet with pyarrow) and pareto.svg.
    Exit code 1 when a row failed; the table says why.

    Examples:
    edgec sweep grid.toml --out sweep

    edgec sweep grid.toml --out /shared/sweep --engine ray --workers 8
    """
    from edgec.exporter.sweep.console import run_sweep

    run_sweep(spec, out, engine, workers, json)
