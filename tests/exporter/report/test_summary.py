"""What an export says at its end: the time that was waited for it, by one clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.bundle.folder import read_manifest
from edgec.exporter.report.summary import export_line


@pytest.mark.parametrize(
    ("stages", "once"), [({}, ""), ({"engine": 95.04}, ", of which 95.0 s compiled the engine (once)")]
)
def test_the_time_is_that_of_the_caller_and_names_the_engine(
    stages: dict[str, float], once: str, tiny_bundle: Path
) -> None:
    made = read_manifest(tiny_bundle)
    build = made.build.model_copy(update={"seconds": {"lower": 3.0, **stages}, "peak_bytes": 778_000_000})
    told = export_line(made.model_copy(update={"build": build}), 128.44)
    assert told == f"export  128.4 s{once}, peak memory 778 MB (measured)"


def test_without_a_peak_there_is_a_time(tiny_bundle: Path) -> None:
    made = read_manifest(tiny_bundle)
    build = made.build.model_copy(update={"seconds": {}, "peak_bytes": 0})
    assert export_line(made.model_copy(update={"build": build}), 2.0) == "export  2.0 s (measured)"
