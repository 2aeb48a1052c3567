"""A sweep as pictures: quality over size, TTFT and speed, with the rows that no other row beats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgec.exporter.bundle.atomic import write_file
from edgec.runtime_py.svg import Points, Series, point_chart, stack
from edgec.runtime_py.sweep.table import Row


@dataclass(frozen=True)
class Axis:
    """A figure of a row, and which way is better."""

    label: str
    value: Callable[[Row], float | None]
    higher_is_better: bool = False


SIZE = Axis("artifact, MB", lambda row: None if row.artifact_bytes is None else row.artifact_bytes / 1e6)
TTFT = Axis("TTFT, ms (measured)", lambda row: row.ttft_ms)
SPEED = Axis("decode, tokens/s (measured)", lambda row: row.decode_tokens_per_s, higher_is_better=True)
QUALITY = Axis("KL to float, nats", lambda row: row.kl_mean_nats)


def front(points: Sequence[tuple[float, float]], higher_is_better: bool = False) -> list[tuple[float, float]]:
    """The points that no other point beats, by x ascending.

    Args:
        points: (x, y); less y is better, and so is less x unless ``higher_is_better``.
        higher_is_better: more x is better.
    """
    best, kept = float("inf"), []
    for x, y in sorted(set(points), key=lambda point: (-point[0] if higher_is_better else point[0], point[1])):
        if y < best:
            best = y
            kept.append((x, y))
    return sorted(kept)


def save_pareto(rows: Sequence[Row], path: Path) -> Path:
    """Write the SVG.

    Raises:
        InputError: E121 or E122.
    """
    write_file(path, stack([_chart(rows, axis) for axis in (SIZE, TTFT, SPEED)]).encode())
    return path


def _chart(rows: Sequence[Row], axis: Axis) -> str:
    groups: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        x, y = axis.value(row), QUALITY.value(row)
        if x is not None and y is not None:
            name = f"{row.recipe} {row.target}" + (f" {row.device}" if row.device and axis is not SIZE else "")
            groups.setdefault(name, []).append((x, y))
    best = front([point for points in groups.values() for point in points], axis.higher_is_better)
    line = Series("no other is better", tuple(x for x, _ in best), tuple(y for _, y in best))
    points = [Points(name, tuple(dict.fromkeys(found))) for name, found in groups.items()]
    return point_chart(f"Quality over {axis.label}", axis.label, QUALITY.label, points, line)
