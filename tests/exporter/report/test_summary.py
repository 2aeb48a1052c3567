"""What an export says at its end: the time that was waited for it, by one clock."""

from __future__ import annotations

import pytest

from edgec.bundle.manifest import Build
from edgec.exporter.report.summary import export_line

MADE = Build(created="2026-11-30T09:00:00Z", seconds={"lower": 3.0}, peak_bytes=778_000_000)
ONCE = ", of which 95.0 s compiled the engine (once)"


@pytest.mark.parametrize(("stages", "once"), [({}, ""), ({"engine": 95.04}, ONCE)])
def test_the_time_is_that_of_the_caller_and_names_the_engine(stages: dict[str, float], once: str) -> None:
    build = MADE.model_copy(update={"seconds": {**MADE.seconds, **stages}})
    assert export_line(build, 128.44) == f"export  128.4 s{once}, peak memory 778 MB (measured)"


def test_without_a_peak_there_is_a_time() -> None:
    assert export_line(MADE.model_copy(update={"peak_bytes": None}), 2.0) == "export  2.0 s (measured)"
