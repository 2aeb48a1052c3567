"""Small charts as self-contained SVG: lines and boxes on one pair of axes, a few kilobytes each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 300, 64, 150, 34, 46
LETTER = 6  # approximate pixels of a letter at this size
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#17becf")


@dataclass(frozen=True)
class Series:
    """A named sequence of points; ``x`` and ``y`` have equal length."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    dashed: bool = False


@dataclass(frozen=True)
class Points:
    """A named set of points (x, y) with a label for each, and the line through some of them."""

    name: str
    at: tuple[tuple[float, float], ...]
    labels: tuple[str, ...]
    line: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two overlap."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


@dataclass(frozen=True)
class Axes:
    """The ranges shown, and their labels with units; ``log``: both axes are logarithmic."""

    title: str
    x_label: str
    y_label: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    log: bool = False

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Convert data to pixels."""
        across, up = self._share(x, *self.x_range), self._share(y, *self.y_range)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def _share(self, value: float, low: float, high: float) -> float:
        if self.log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return (value - low) / (high - low)


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    series: Sequence[Series],
    x_ticks: Sequence[float] | None = None,
    from_zero: bool = True,
) -> str:
    """Draw lines with a legend.

    Args:
        title: text above the chart.
        x_label: label of the x axis with its unit.
        y_label: label of the y axis with its unit.
        series: the lines.
        x_ticks: values named on the x axis; None for five.
        from_zero: the y axis begins at 0, else just below the smallest value.
    """
    x_range, values = _range([x for s in series for x in s.x]), [y for s in series for y in s.y]
    axes = Axes(title, x_label, y_label, x_range, (0.0, _top(values)) if from_zero else _around(values))
    ticks = np.linspace(*x_range, 5).tolist() if x_ticks is None else x_ticks
    return _chart(axes, [*_lines(axes, series), *_legend([s.name for s in series])], ticks)


def log_chart(title: str, x_label: str, y_label: str, series: Sequence[Series]) -> str:
    """Draw lines with a legend on logarithmic axes, all values above 0: a power law is a straight line."""
    x_range, y_range = (_range([v for s in series for v in values(s)]) for values in (lambda s: s.x, lambda s: s.y))  # type: ignore[no-untyped-call]
    axes = Axes(title, x_label, y_label, x_range, y_range, log=True)
    return _chart(axes, [*_lines(axes, series), *_legend([s.name for s in series])], _decades(*x_range))


def labelled_chart(title: str, x_label: str, y_label: str, series: Sequence[Series], x_ticks: Sequence[float]) -> str:
    """Draw lines on logarithmic axes, all values above 0, each named at its right end in its own colour."""
    x_range, y_range = (_wider([v for s in series for v in values(s)]) for values in (lambda s: s.x, lambda s: s.y))  # type: ignore[no-untyped-call]
    axes = Axes(title, x_label, y_label, x_range, y_range, log=True)
    ends = [axes.at(s.x[-1], s.y[-1]) for s in series]
    named = [
        _label(ends[i][0] + 6, y + 4, series[i].name, "start", f' fill="{_colour(i)}"')
        for i, y in _apart([y for _, y in ends])
    ]
    return _chart(axes, [*_lines(axes, series), *named], x_ticks)


def _apart(heights: Sequence[float], room: float = 13) -> list[tuple[int, float]]:
    """Heights by index, from the top, each moved down as far as the label above it needs."""
    out: list[tuple[int, float]] = []
    for i in sorted(range(len(heights)), key=heights.__getitem__):
        out.append((i, max(heights[i], out[-1][1] + room) if out else heights[i]))
    return out


def _decades(low: float, high: float) -> list[float]:
    """The values 1, 2 and 5 times a power of ten within a range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= m * 10.0**p <= high]


def box_chart(title: str, x_label: str, y_label: str, groups: Sequence[Series]) -> str:
    """Draw one box per group: quartiles, median, whiskers from the smallest to the largest value."""
    axes = Axes(title, x_label, y_label, (0.0, float(len(groups))), (0.0, _top([y for g in groups for y in g.y])))
    parts = [part for i, group in enumerate(groups) for part in _box(axes, i, group)]
    return _chart(axes, parts, ())


def point_chart(title: str, x_label: str, y_label: str, groups: Sequence[Points]) -> str:
    """Draw points with a legend of several groups, labels where there is room, and a dashed line for each group.

    Both axes are logarithmic, all values above 0. A point shows its label when the mouse rests on it.
    """
    places = [place for group in groups for place in group.at]
    x_range, y_range = (_wider([place[i] for place in places]) for i in (0, 1))
    axes = Axes(title, x_label, y_label, x_range, y_range, log=True)
    lines = [Series(g.name, tuple(x for x, _ in g.line), tuple(y for _, y in g.line), dashed=True) for g in groups]
    parts = [*_lines(axes, lines), *_dots(axes, groups), *_legend([group.name for group in groups if len(groups) > 1])]
    return _chart(axes, parts, _log_ticks(*x_range))


def stack(charts: Sequence[str], names: Sequence[str] = ()) -> str:
    """Stack charts in one SVG document, which is as wide as the legend's ``names`` need."""
    width = max(WIDTH, WIDTH - RIGHT + 40 + max((LETTER * len(name) for name in names), default=0))
    body = "".join(f'<g transform="translate(0 {i * HEIGHT})">{chart}</g>' for i, chart in enumerate(charts))
    size = f'width="{width}" height="{HEIGHT * len(charts)}"'
    style = 'font-family="sans-serif" font-size="11"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}><rect {size} fill="white"/>{body}</svg>\n'


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    return (low, high) if high > low else (low, low + 1.0)


def _wider(values: Sequence[float]) -> tuple[float, float]:
    """The range of a logarithmic axis with room at both ends; for equal values half a decade."""
    low, high = min(values, default=1.0), max(values, default=1.0)
    room = max((high / low) ** 0.06, 1.05 if high > low else 1.8)
    return low / room, high * room


def _log_ticks(low: float, high: float) -> list[float]:
    """The values 1, 2 and 5 times a power of ten; where the range holds fewer than three, multiples of such a value."""
    ticks = _decades(low, high)
    if len(ticks) > 2:
        return ticks
    power = 10.0 ** math.floor(math.log10((high - low) / 3))
    step = max(factor * power for factor in (1, 2, 5) if factor * power <= (high - low) / 3)
    return [step * count for count in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _around(values: Sequence[float]) -> tuple[float, float]:
    low, high = _range(values)
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def _top(values: Sequence[float]) -> float:
    return 1.05 * max(values, default=1.0) or 1.0


def _chart(axes: Axes, parts: Sequence[str], x_ticks: Sequence[float]) -> str:
    x0, y0 = axes.at(axes.x_range[0], axes.y_range[0])
    x1, y1 = axes.at(axes.x_range[1], axes.y_range[1])
    frame = f'<path d="M{x0:.1f} {y1:.1f}V{y0:.1f}H{x1:.1f}" fill="none" stroke="#444"/>'
    middle = (y0 + y1) / 2
    labels = [
        _label((x0 + x1) / 2, 18, axes.title, "middle", ' font-size="13"'),
        _label((x0 + x1) / 2, HEIGHT - 8, axes.x_label, "middle"),
        _label(14, middle, axes.y_label, "middle", f' transform="rotate(-90 14 {middle:.0f})"'),
    ]
    y_ticks = _log_ticks(*axes.y_range) if axes.log else np.linspace(*axes.y_range, 5)
    labels += [_label(LEFT - 6, axes.at(axes.x_range[0], v)[1] + 4, _tick(v), "end") for v in y_ticks]
    labels += [_label(axes.at(v, axes.y_range[0])[0], HEIGHT - BOTTOM + 15, _tick(v), "middle") for v in x_ticks]
    return "".join([frame, *labels, *parts])


def _tick(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _lines(axes: Axes, series: Sequence[Series]) -> list[str]:
    """Draw a line for each series; a single point is visible by its round ends."""
    out = []
    for i, s in enumerate(series):
        places = [axes.at(x, y) for x, y in zip(s.x, s.y, strict=True)]
        alone = len(places) == 1 and not s.dashed
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (places * 2 if alone else places))
        more = ' stroke-dasharray="4 3"' * s.dashed + ' stroke-width="6" stroke-linecap="round"' * alone
        out.append(f'<polyline points="{points}" fill="none" stroke="{_colour(i)}"{more}/>')
    return out


def _dots(axes: Axes, groups: Sequence[Points]) -> list[str]:
    """Draw circles, then inside the axes the labels that hide no circle and no other label."""
    dots = [
        (*axes.at(*at), label, f"{group.name}: {label}", _colour(i))
        for i, group in enumerate(groups)
        for at, label in zip(group.at, group.labels, strict=True)
    ]
    out = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"><title>{escape(told)}</title></circle>'
        for x, y, _, told, colour in dots
    ]
    taken = [Box(x - 4, y - 4, x + 4, y + 4) for x, y, *_ in dots]
    for x, y, label, _, colour in dots:
        width = LETTER * len(label)
        for left, base in ((x + 6, y - 4), (x + 6, y + 12), (x - 6 - width, y - 4), (x - 6 - width, y + 12)):
            box = Box(left, base - 9, left + width, base + 2)
            if left > LEFT and box.right < WIDTH - RIGHT + 8 and not any(map(box.meets, taken)):
                taken.append(box)
                out.append(_label(left, base, label, "start", f' fill="{colour}"'))
                break
    return out


def _legend(names: Sequence[str]) -> list[str]:
    rows = [(WIDTH - RIGHT + 12, TOP + 16 * i, _colour(i), name) for i, name in enumerate(names[:16])]
    return [f'<path d="M{x} {y}h16" stroke="{c}"/>' + _label(x + 20, y + 4, name, "start") for x, y, c, name in rows]


def _colour(index: int) -> str:
    """A colour for each index: those of the list, then hues spread by the golden angle."""
    return COLOURS[index] if index < len(COLOURS) else f"hsl({index * 137.508 % 360:.0f} 60% 45%)"


def _box(axes: Axes, index: int, group: Series) -> list[str]:
    low, q1, median, q3, high = (axes.at(0, v)[1] for v in np.percentile(group.y, [0, 25, 50, 75, 100]))
    x, half = axes.at(index + 0.5, 0)[0], 0.3 * (axes.at(1, 0)[0] - axes.at(0, 0)[0])
    return [
        f'<path d="M{x:.1f} {low:.1f}V{q1:.1f}M{x:.1f} {q3:.1f}V{high:.1f}" stroke="#444"/>',
        f'<rect x="{x - half:.1f}" y="{q3:.1f}" width="{2 * half:.1f}" height="{q1 - q3:.1f}" '
        'fill="#cfe2f3" stroke="#444"/>',
        f'<path d="M{x - half:.1f} {median:.1f}H{x + half:.1f}" stroke="#d62728" stroke-width="2"/>',
        _label(x, HEIGHT - BOTTOM + 15, group.name, "middle"),
    ]


def _label(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'
