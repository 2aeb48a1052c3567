"""A sweep's table: one row per cell, the same columns for all; null means unavailable."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from edgec.bundle.atomic import write_file
from edgec.errors import EdgecError
from edgec.exporter.sweep.spec import Cell
from edgec.exporter.sweep.step import Done

# Columns by the names of a run's figures, with their units.
FIGURES = {
    "TTFT": "ttft_ms",
    "prefill": "prefill_tokens_per_s",
    "decode": "decode_tokens_per_s",
    "cold load": "cold_load_ms",
    "warm load": "warm_load_ms",
    "peak RSS": "peak_rss_mb",
}


@dataclass(frozen=True)
class Row:
    """The result of one cell.

    Attributes:
        device: empty where nothing was to be measured.
        status: ``measured``, ``simulated`` (by an emulator: no speeds), ``exported`` (nothing to measure), ``failed``.
        error_code, error: why it failed.
        kl_mean_nats, top1_agreement: of the artifact against the float model, from the export's parity ladder.
        ttft_ms and below: medians, measured on the device.
    """

    model: str
    recipe: str
    target: str
    device: str
    status: Literal["measured", "simulated", "exported", "failed"]
    error_code: str | None
    error: str | None
    bundle: str | None
    artifact_bytes: int | None
    kl_mean_nats: float | None
    top1_agreement: float | None
    ttft_ms: float | None = None
    prefill_tokens_per_s: float | None = None
    decode_tokens_per_s: float | None = None
    cold_load_ms: float | None = None
    warm_load_ms: float | None = None
    peak_rss_mb: float | None = None


def make_row(cell: Cell, bundle: Path, exported: Done | None, measured: Done | None) -> Row:
    """The row of a cell, from how its steps ended."""
    artifact = cell.artifact
    last = measured if measured is not None else exported
    error = _error(exported) or (_error(last) if cell.device else None)
    if cell.device and error is None and measured is None:
        error = {"code": "E561", "why": "it was not measured"}
    figures = measured.answer.get("figures", []) if measured is not None else []
    return Row(
        model=artifact.model,
        recipe=artifact.recipe,
        target=artifact.target,
        device=cell.device,
        status=_status(cell, error, measured),
        error_code=str(error["code"]) if error else None,
        error=None if error is None else " ".join(str(error.get(name, "")) for name in ("what", "why")).strip(),
        **_facts(bundle, artifact.model),
        **{FIGURES[figure["name"]]: figure["median"] for figure in figures if figure["name"] in FIGURES},
    )


def _error(done: Done | None) -> Mapping[str, Any] | None:
    if done is None:
        return {"code": "E561", "why": "it did not run"}
    return done.error


def _status(
    cell: Cell, error: Mapping[str, Any] | None, measured: Done | None
) -> Literal["measured", "simulated", "exported", "failed"]:
    if error is not None:
        return "failed"
    if not cell.device or measured is None:
        return "exported"
    return "simulated" if measured.answer.get("simulated") else "measured"


def _facts(bundle: Path, model: str) -> dict[str, Any]:
    """Size and quality, from the bundle's manifest."""
    from edgec.bundle.folder import open_bundle

    try:
        opened = open_bundle(bundle, check_files=False)
    except EdgecError:
        return {"bundle": None, "artifact_bytes": None, "kl_mean_nats": None, "top1_agreement": None}
    # Without rounding passes there is no rung against the float model: the artifact's own rung replaces it.
    rungs = [rung for rung in opened.manifest.parity if rung.half == "quality"] or opened.manifest.parity
    last = rungs[-1] if rungs and opened.manifest.model.trained else None
    artifact = opened.manifest.artifact
    inside = [file for file in opened.manifest.files if file.path == artifact or file.path.startswith(f"{artifact}/")]
    return {
        "bundle": str(bundle),
        "artifact_bytes": sum(file.bytes for file in inside),
        "kl_mean_nats": last.kl_mean if last else None,
        "top1_agreement": last.top1_agreement if last else None,
    }


def write_table(rows: Sequence[Row], folder: Path) -> tuple[Path, ...]:
    """Write ``results.jsonl``, and ``results.parquet`` where pyarrow is installed.

    Raises:
        InputError: E121 or E122.
    """
    lines = folder / "results.jsonl"
    write_file(lines, "".join(json.dumps(asdict(row)) + "\n" for row in rows).encode())
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return (lines,)
    sink = pyarrow.BufferOutputStream()
    kinds = {"artifact_bytes": pyarrow.int64(), **{name: pyarrow.float64() for name in _NUMBERS}}
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in Row.__dataclass_fields__])
    parquet.write_table(pyarrow.Table.from_pylist([asdict(row) for row in rows], schema=schema), sink)
    write_file(folder / "results.parquet", sink.getvalue().to_pybytes())
    return (lines, folder / "results.parquet")


_NUMBERS = ("kl_mean_nats", "top1_agreement", *FIGURES.values())
