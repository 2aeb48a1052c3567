"""Plot a sweep: quality over size, TTFT and speed, with the Pareto front of each model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgec.bundle.atomic import write_file
from edgec.exporter.sweep.table import Row
from edgec.svg import Points, point_chart, stack


@dataclass(frozen=True)
class Axis:
    """A figure of a row, where it was obtained, and which direction is better.

    Attributes:
        place: what two rows of a model must share to be comparable: the target for sizes, the device for times.
    """

    label: str
    value: Callable[[Row], float | None]
    place: Callable[[Row], str]
    higher_is_better: bool = False


SIZE = Axis(
    "artifact, MB", lambda row: None if row.artifact_bytes is None else row.artifact_bytes / 1e6, lambda row: row.target
)
TTFT = Axis("TTFT, ms (measured)", lambda row: row.ttft_ms, lambda row: row.device)
SPEED = Axis("decode, tokens/s (measured)", lambda row: row.decode_tokens_per_s, lambda row: row.device, True)
LEAST_NATS = 1e-4
QUALITY = f"KL to float, nats; {LEAST_NATS:g} where less"


def pareto_front(points: Sequence[tuple[float, float]], higher_is_better: bool = False) -> list[tuple[float, float]]:
    """The points that no other point beats, by x ascending.

    Args:
        points: (x, y); a lower y is better, and so is a lower x unless ``higher_is_better``.
        higher_is_better: whether a higher x is better.
    """
    best, kept = float("inf"), []
    for x, y in sorted(set(points), key=lambda point: (-point[0] if higher_is_better else point[0], point[1])):
        if y < best:
            best = y
            kept.append((x, y))
    return sorted(kept)


def save_pareto(rows: Sequence[Row], path: Path) -> Path:
    """Write the plots as SVG.

    Raises:
        InputError: E121 or E122.
    """
    charts = {axis: _groups(rows, axis) for axis in (SIZE, TTFT, SPEED)}
    drawn = [point_chart(f"Quality over {axis.label}", axis.label, QUALITY, groups) for axis, groups in charts.items()]
    write_file(path, stack(drawn, [group.name for groups in charts.values() for group in groups]).encode())
    return path


def _groups(rows: Sequence[Row], axis: Axis) -> list[Points]:
    """The points to draw, grouped by model and place; equal points are joined, fronts use the exact figures."""
    groups: dict[tuple[str, str], dict[tuple[float, float], list[str]]] = {}
    for row in rows:
        x, y = axis.value(row), row.kl_mean_nats
        if x and y is not None:
            labels = groups.setdefault((row.model, axis.place(row)), {}).setdefault((x, y), [])
            labels.append(_label(row, axis, rows))
    # The last part of each model's path; the whole path where two are the same.
    last = {model: Path(model).name for model in dict.fromkeys(row.model for row in rows)}
    names = {model: name if list(last.values()).count(name) == 1 else model for model, name in last.items()}
    return [
        Points(
            f"{names[model]}, {place}",
            _shown(points),
            tuple(", ".join(dict.fromkeys(labels)) for labels in points.values()),
            _shown(pareto_front(list(points), axis.higher_is_better)),
        )
        for (model, place), points in groups.items()
    ]


def _shown(points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    return tuple((x, max(y, LEAST_NATS)) for x, y in points)


def _label(row: Row, axis: Axis, rows: Sequence[Row]) -> str:
    """A row's recipe, and its target where its group has several."""
    group = (row.model, axis.place(row))
    targets = {each.target for each in rows if (each.model, axis.place(each)) == group}
    recipe = Path(row.recipe).stem
    return f"{recipe} {row.target}" if len(targets) > 1 else recipe
