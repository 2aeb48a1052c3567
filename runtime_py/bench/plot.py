"""A run's plots: inter-token latency over the tokens, its spread by repetition, and the speed over minutes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgec.bundle.atomic import typed_os_errors
from edgec.runtime_py.bench.record import AnyRecord, RepetitionRecord, SustainedRecord
from edgec.runtime_py.svg import Series, box_chart, line_chart, stack


def save_plot(records: Sequence[AnyRecord], path: Path) -> Path:
    """Write the SVG; returns its path.

    Raises:
        InputError: E121, the path cannot be written.
    """
    with typed_os_errors(path):
        path.write_text(plot(records))
    return path


def plot(records: Sequence[AnyRecord]) -> str:
    """The run as one SVG document."""
    name = f"{records[0].subject.name} on {records[0].comparability.device} (measured)"
    laps = [r for r in records if isinstance(r, RepetitionRecord)]
    lines = [Series(f"repetition {r.index}", tuple(range(1, r.tokens)), tuple(r.token_ms)) for r in laps]
    boxes = [Series(str(r.index), (), tuple(r.token_ms)) for r in laps]
    charts = [
        line_chart(f"Inter-token latency: {name}", "new token", "ms", lines),
        box_chart(f"Inter-token latency by repetition: {name}", "repetition", "ms", boxes),
    ]
    steady = [r for r in records if isinstance(r, SustainedRecord)]
    if steady:
        minutes, speeds = tuple(r.elapsed_s / 60 for r in steady), tuple(r.decode_tokens_per_s for r in steady)
        line = Series("decode", minutes, speeds)
        charts.append(line_chart(f"Sustained decode: {name}", "minutes", "tokens/s", [line]))
    return stack(charts)
