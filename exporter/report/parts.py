"""The report's building blocks: numbers with units, tables, bars, dots on a scale, a line plot.

Text stays HTML and only marks are drawn, so that nothing shrinks on a phone; positions are percentages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

UNAVAILABLE = '<span class="dim">unavailable</span>'
COLOURS = ("--c0", "--c1", "--c2", "--c3", "--c4", "--c5")
REST = "--rest"
_LEAST_SHARE = 0.001


def size(count: float | None) -> str:
    """A number of bytes, in decimal units."""
    if count is None:
        return UNAVAILABLE
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            value = count / factor
            three_digits = f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
            return f"{three_digits} {unit}"
    return f"{count:.0f} B"


def number(value: float | None) -> str:
    """A figure with two significant digits; from 100 on a whole number with three."""
    if value is None:
        return UNAVAILABLE
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 100 else f"{value:.2g}"


def rounded(value: float) -> str:
    """A figure with two significant digits, as in a sentence; whole numbers from 10 on."""
    return f"{value:.1f}" if value < 9.95 else f"{float(f'{value:.2g}'):,.0f}"


def plain(value: object) -> str:
    """An option's value as people write it: no brackets, no quotes, no Python; records without what is 0 or empty."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, Mapping):
        told = [(str(name), part) for name, part in sorted(value.items()) if part is None or part]
        return ", ".join(f"{name.replace('_', ' ')} {plain(part)}" for name, part in told) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ("; " if any(isinstance(part, Mapping) for part in value) else ", ").join(map(plain, value)) or "none"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def percent(share: float | None) -> str:
    """A share 0..1 as a percentage; only a full share is printed as 100 %, and only none as 0 %."""
    if share is None:
        return UNAVAILABLE
    if 0 < share < _LEAST_SHARE:
        return f"below {100 * _LEAST_SHARE:.1g} %"
    return "100 %" if share == 1 else f"{min(share * 100, 99.9):.{3 if share >= 0.1 else 2}g} %"


def code(text: object) -> str:
    """Escaped text in a fixed-width face; long names break after a dot."""
    return f"<code>{escape(str(text)).replace('.', '.<wbr>')}</code>"


def section(title: str, *parts: str) -> str:
    """A card with a heading and its non-empty parts."""
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(part for part in parts if part) + "\n</section>"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of names and values (HTML), in as many columns as fit."""
    return '<dl class="facts">' + "".join(f"<div><dt>{escape(k)}</dt><dd>{v}</dd></div>" for k, v in pairs) + "</dl>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[int] = (), told: bool = False) -> str:
    """A table of HTML cells; ``numeric`` columns are aligned to the right.

    Where the last column is ``told`` in sentences, a phone shows it below the other cells of its row.
    """
    marks = ['class="num"' if column in set(numeric) else "" for column in range(len(heads))]
    head = "".join(f"<th {mark}>{escape(text)}</th>" for mark, text in zip(marks, heads, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td {mark}>{cell}</td>" for mark, cell in zip(marks, row, strict=True)) + "</tr>\n"
        for row in rows
    )
    kind = "wide told" if told else "wide"
    return f'<div class="{kind}"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def row(label: str, track: str, value: str) -> str:
    """One line of a chart; label and value are HTML."""
    return f'<div class="row"><div class="label">{label}</div><div class="track">{track}</div>' + (
        f'<div class="value">{value}</div></div>'
    )


def bar(label: str, share: float, value: str, colour: str = "--c0") -> str:
    """A row with a bar of ``share`` 0..1."""
    return row(label, f'<i class="bar" style="width:{_at(share)};background:var({colour})"></i>', value)


def pieces(label: str, parts: Sequence[tuple[float, str]], value: str) -> str:
    """A row with a bar of pieces side by side: share 0..1 and colour of each."""
    drawn, left = "", 0.0
    for share, colour in parts:
        drawn += f'<i style="left:{_at(left)};width:{_at(share)};background:var({colour})"></i>'
        left += share
    return row(label, drawn, value)


@dataclass(frozen=True)
class PagePart:
    """A piece of a stacked bar; ``share`` 0..1 of the whole."""

    label: str
    share: float
    value: str


def stacked(parts: Sequence[PagePart]) -> str:
    """A bar of pieces with a legend; pieces beyond the palette share the last, quiet colour."""
    colours = [COLOURS[i] if i < len(COLOURS) else REST for i in range(len(parts))]
    pieces = "".join(
        f'<i style="width:{_at(part.share)};background:var({colour})"></i>'
        for part, colour in zip(parts, colours, strict=True)
    )
    labels = "".join(
        f'<li><i style="background:var({colour})"></i>{escape(part.label)} <span class="dim">{part.value}</span></li>'
        for part, colour in zip(parts, colours, strict=True)
    )
    return f'<div class="stack">{pieces}</div><ul class="legend">{labels}</ul>'


@dataclass(frozen=True)
class LogScale:
    """Whole decades that hold all given values; zero and less lie at the left edge."""

    low: int
    high: int

    @staticmethod
    def around(values: Iterable[float]) -> LogScale:
        """The smallest scale for the positive values, one decade at least."""
        logs = [math.log10(value) for value in values if value > 0] or [0.0]
        low = math.floor(min(logs))
        return LogScale(low, max(math.ceil(max(logs)), low + 1))

    def share(self, value: float) -> float:
        """The position of a value on the scale, 0..1."""
        return 0.0 if value <= 0 else (math.log10(value) - self.low) / (self.high - self.low)

    def decades(self) -> list[int]:
        """The exponents to label, at most six."""
        step = math.ceil((self.high - self.low) / 5)
        return list(range(self.low, self.high + 1, step))


def dots(scale: LogScale, value: float | None, limit: float | None, bad: bool) -> str:
    """A value and its limit on a logarithmic track."""
    grid = "".join(f'<i class="grid" style="left:{_at(scale.share(10.0**e))}"></i>' for e in scale.decades())
    line = "" if limit is None else f'<i class="limit" style="left:{_at(scale.share(limit))}"></i>'
    mark = (
        f'<i class="dot{" bad" if bad else ""}" style="left:{_at(scale.share(value))}"></i>'
        if value is not None
        else ""
    )
    return grid + line + mark


def decades(scale: LogScale) -> str:
    """The axis below tracks of ``dots``; labels at the edges stay inside."""
    labels = "".join(_tick(scale.share(10.0**exponent), f"1e{exponent}") for exponent in scale.decades())
    cells = f'<div class="label"></div><div class="axis">{labels}</div><div class="value"></div>'
    return f'<div class="row ticks">{cells}</div>'


def _tick(share: float, label: str) -> str:
    edge = "first" if share == 0 else "last" if share == 1 else ""
    return f'<span class="{edge}" style="left:{_at(share)}">{label}</span>'


def samples(values: Sequence[float], low: float, high: float, middle: float) -> str:
    """Single measurements as faint dots on a linear track, with a line at the median."""
    span = (high - low) or 1.0
    marks = "".join(f'<i class="dot thin" style="left:{_at((value - low) / span)}"></i>' for value in values)
    return marks + f'<i class="limit" style="left:{_at((middle - low) / span)}"></i>'


@dataclass(frozen=True)
class Line:
    """A polyline; ``dashed`` for limits. Points are in data units."""

    points: Sequence[tuple[float, float]]
    colour: str
    dashed: bool = False


def plot(lines: Sequence[Line], x_name: str, x_ticks: Sequence[float], y_ticks: Sequence[float]) -> str:
    """Lines over axes from 0 to the last tick; the y ticks are bytes."""
    width, height = x_ticks[-1], y_ticks[-1]
    marks = "".join(_y_tick(y, y / height) for y in y_ticks)
    marks += "".join(f'<span class="x" style="left:{_at(x / width)}">{x:,.0f}</span>' for x in x_ticks)
    drawn = "".join(_polyline(line, width, height) for line in lines)
    frame = 'viewBox="0 0 1000 1000" preserveAspectRatio="none" role="img"'
    svg = f'<svg {frame} aria-label="{escape(x_name)}">{drawn}</svg>'
    return f'<div class="plot">{marks}{svg}<div class="xname">{escape(x_name)}</div></div>'


def _y_tick(value: float, share: float) -> str:
    style = f'style="bottom:{_at(share)}"'
    return f'<div class="h" {style}></div><span class="y" {style}>{size(value)}</span>'


def _polyline(line: Line, width: float, height: float) -> str:
    points = " ".join(f"{1000 * x / width:.1f},{1000 - 1000 * y / height:.1f}" for x, y in line.points)
    dash = ' stroke-dasharray="6 5"' if line.dashed else ""
    return (
        f'<polyline points="{points}" fill="none" stroke="var({line.colour})" stroke-width="2.5"'
        f'{dash} vector-effect="non-scaling-stroke"/>'
    )


def ticks(top: float, count: int = 4) -> list[float]:
    """Round numbers from 0 to at least ``top``."""
    raw = max(top, 1e-9) / count
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= raw * 0.999)
    return [step * index for index in range(math.ceil(top / step - 1e-9) + 1)]


def _at(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.2f}%"
