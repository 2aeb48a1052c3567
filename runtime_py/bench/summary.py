"""From records to figures: the median, the spread, and the number of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgec.runtime_py.bench.record import AnyRecord, LoadRecord, MemoryRecord, RepetitionRecord, SustainedRecord


@dataclass(frozen=True)
class Figure:
    """A figure of a run: a row of the table. ``higher_is_better`` gives the direction of a comparison."""

    name: str
    unit: str
    median: float
    low: float
    high: float
    count: int
    higher_is_better: bool = False

    def to_json(self) -> dict[str, float | int | str]:
        """The figure as plain data."""
        fields: dict[str, float | int | str] = {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "min": self.low,
            "max": self.high,
        }
        return {**fields, "count": self.count, "obtained": "measured"}


@dataclass(frozen=True)
class BenchSamples:
    """The values that a figure summarises."""

    name: str
    unit: str
    values: tuple[float, ...]
    higher_is_better: bool = False

    def figure(self) -> Figure:
        """Median, smallest and largest."""
        low, middle, high = min(self.values), float(np.median(self.values)), max(self.values)
        return Figure(self.name, self.unit, middle, low, high, len(self.values), self.higher_is_better)


def samples(records: Sequence[AnyRecord]) -> tuple[BenchSamples, ...]:
    """The values of each figure of a run; figures without values are left out, as are all of an emulator."""
    if any(record.simulated for record in records):
        return ()
    loads = [r for r in records if isinstance(r, LoadRecord)]
    memory = [r for r in records if isinstance(r, MemoryRecord)]
    laps = [r for r in records if isinstance(r, RepetitionRecord)]
    steady = [r for r in records if isinstance(r, SustainedRecord)]
    rows = [
        ("cold load", "ms", [r.load_ms for r in loads if r.state == "cold"], False),
        ("warm load", "ms", [r.load_ms for r in loads if r.state == "warm"], False),
        ("TTFT", "ms", [r.ttft_ms for r in laps], False),
        ("prefill", "tokens/s", [r.prefill_tokens_per_s for r in laps], True),
        ("decode", "tokens/s", [r.decode_tokens_per_s for r in laps if r.decode_tokens_per_s is not None], True),
        *(
            (f"inter-token p{p}", "ms", [float(np.percentile(r.token_ms, p)) for r in laps if r.token_ms], False)
            for p in (50, 95, 99)
        ),
        ("peak RSS", "MB", [r.peak_rss_bytes / 1e6 for r in memory], False),
        (
            "RSS over idle",
            "MB",
            [(r.peak_rss_bytes - r.baseline_rss_bytes) / 1e6 for r in memory],
            False,
        ),
        ("sustained decode", "tokens/s", [r.decode_tokens_per_s for r in steady], True),
    ]
    return tuple(BenchSamples(name, unit, tuple(values), better) for name, unit, values, better in rows if values)


def summarise(records: Sequence[AnyRecord]) -> tuple[Figure, ...]:
    """The figures of a run, one row each."""
    return tuple(row.figure() for row in samples(records))


def shown(value: float) -> str:
    """A number, formatted for a narrow column."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
