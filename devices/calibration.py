"""Published on-device speeds, the material the roofline is calibrated on (``speeds.csv``)."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgec.devices.targets import chips
from edgec.devices.workload import Workload, fastest_four_hz


@dataclass(frozen=True)
class Observation:
    """One published measurement.

    Attributes:
        row: its number in the compilation, stable.
        prefill_tokens_per_s: None where not published or not to be trusted; likewise decode.
        laptop: a laptop's chip; such rows inform the fit, but not the width of the range.
    """

    row: str
    workload: Workload
    prefill_tokens_per_s: float | None
    decode_tokens_per_s: float | None
    laptop: bool
    source: str


@cache
def observations() -> tuple[Observation, ...]:
    """All rows of ``speeds.csv``."""
    with (Path(__file__).parent / "speeds.csv").open(newline="") as stream:
        return tuple(_observation(row) for row in csv.DictReader(stream))


def _observation(row: Mapping[str, str]) -> Observation:
    return Observation(
        row=row["row"],
        workload=_workload(row),
        prefill_tokens_per_s=_number(row["prefill_tokens_per_s"]),
        decode_tokens_per_s=_number(row["decode_tokens_per_s"]),
        laptop=chips()[row["chip"]]["kind"] == "laptop",
        source=row["source"],
    )


def _workload(row: Mapping[str, str]) -> Workload:
    chip = chips()[row["chip"]]
    return Workload(
        unit=row["unit"],
        runtime=row["runtime"],
        kernels=row["kernels"],
        vendor=chip["vendor"],
        family=chip["family"],
        chip=row["chip"],
        device=row["device"],
        model=row["model"],
        parameters=float(row["parameters"]),
        weight_bytes=float(row["weight_bytes"]),
        bandwidth_bytes_per_s=float(row["bandwidth_bytes_per_s"]),
        core_hz=fastest_four_hz(chip.get("core_clocks_hz")),
        int8_matmul="i8mm" in chip.get("instruction_set", ()),
        gpu_cores=_number(row["gpu_cores"]),
    )


def _number(text: str) -> float | None:
    return float(text) if text else None
