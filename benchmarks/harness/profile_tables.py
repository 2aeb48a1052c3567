"""Where the time of edgec goes, operator by operator, as ``edgec bench --profile`` measures it."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness.grid import Grid
from benchmarks.harness.results import Results


def profile_grids(results: Results) -> Iterator[Grid]:
    """One table for each model and phase."""
    yield from ()
