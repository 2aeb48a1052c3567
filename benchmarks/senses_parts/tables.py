"""The result as Markdown and as plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.harness.grid import Grid, megabytes, number
from benchmarks.harness.results import Speed
from benchmarks.harness.subjects import OWN
from benchmarks.senses_parts.result import SenseFacts, SenseResult, SenseSubject

_DECODE = "decode"
_NO_COUNTERPART = "-"


def markdown(result: SenseResult) -> str:
    """Where and with what it was measured, then all tables, a heading for each."""
    return "\n\n".join((_measured_on(result), *(grid.markdown(3) for grid in grids(result))))


def _measured_on(result: SenseResult) -> str:
    machine, tools = result.machine, ", ".join(f"{name} {text}" for name, text in result.versions.items())
    before, after = ("unavailable" if load is None else f"{load:.2f}" for load in machine.load_average)
    return (
        f"{result.date}, {machine.cpu}, {machine.cores} cores, {machine.memory_bytes / 1e9:.0f} GB, "
        f"{' '.join(machine.features)}; {result.rounds} rounds; load average {before} before, {after} after. {tools}."
    )


def grids(result: SenseResult) -> Iterator[Grid]:
    """Speeds of each model, then memory and agreement of all."""
    for model in result.models:
        yield _speed_grid(result, model)
    yield _memory_grid(result)
    yield _agreement_grid(result)


def _threads(result: SenseResult) -> list[int]:
    return sorted({speed.threads for speed in result.speeds})


def _speed_grid(result: SenseResult, model: SenseFacts) -> Grid:
    speeds = [speed for speed in result.speeds if speed.model == model.name]
    threads = _threads(result)
    heads = ("case", "subject", *(f"{_counted(n)}, median (quartiles)" for n in threads), "this / edgec of equal bits")
    places = dict.fromkeys((speed.case, speed.subject) for speed in speeds)
    rows = tuple(_speed_row(result, [s for s in speeds if (s.case, s.subject) == place], threads) for place in places)
    missed = [f"{f.part}: {f.what}" for f in result.failures if f.part.startswith(f"{model.name}:")]
    notes = ("Milliseconds, but tokens per second where it decodes; a ratio above 1: edgec is faster.", *missed)
    return Grid(f"{model.name}: {model.about}", heads, rows, notes)


def _speed_row(result: SenseResult, same: Sequence[Speed], threads: Sequence[int]) -> tuple[str, ...]:
    by_threads = {speed.threads: speed for speed in same}
    one = same[0]
    label = f"{one.case}, tokens/s" if one.case == _DECODE else one.case
    figures = [_figure(by_threads.get(n)) for n in threads]
    ratios = [_ratio(result, by_threads[n]) for n in threads if n in by_threads]
    compared = any(value != _NO_COUNTERPART for value in ratios)
    return (label, one.subject, *figures, " / ".join(ratios) if compared else _NO_COUNTERPART)


def _figure(speed: Speed | None) -> str:
    if speed is None:
        return "unavailable"
    values = [speed.wall_ms.median, speed.wall_ms.q1, speed.wall_ms.q3]
    if speed.case == _DECODE:
        middle, high, low = (1e3 / value for value in values)
        values = [middle, low, high]
    median, first, last = map(number, values)
    return f"{median} ({first} to {last})"


def ratio(result: SenseResult, speed: Speed) -> float | None:
    """How many times as long a peer takes as edgec with as many bits; None for edgec, and where that has no figure."""
    if speed.subject.startswith(OWN):
        return None
    wanted = (speed.model, speed.case, speed.threads, result.bits(speed))
    for own in result.speeds:
        same = (own.model, own.case, own.threads, result.bits(own)) == wanted
        if same and own.subject.startswith(OWN):
            return speed.wall_ms.median / own.wall_ms.median
    return None


def _ratio(result: SenseResult, speed: Speed) -> str:
    value = ratio(result, speed)
    return _NO_COUNTERPART if value is None else f"{value:.2f}x"


def _memory_grid(result: SenseResult) -> Grid:
    heads = ("model", "subject", "artifact, MB", "peak over idle, MB", "peak, MB", "`edgec plan` (estimated), MB")
    rows = tuple(_memory_row(subject) for subject in result.subjects)
    notes = (
        "The peak over idle is that of a process beyond what it took before it loaded the model. "
        "`edgec plan` counts all parts of a model; of one with vision not what its image encoder needs while it runs.",
    )
    return Grid("Memory", heads, rows, notes)


def _memory_row(subject: SenseSubject) -> tuple[str, ...]:
    forecast = subject.forecast_bytes
    planned = "unavailable" if forecast is None else f"{megabytes(forecast[0])} to {megabytes(forecast[1])}"
    sizes = (subject.file_bytes, subject.over_idle_bytes, subject.peak_bytes)
    return (subject.model, subject.subject, *map(megabytes, sizes), planned)


def _agreement_grid(result: SenseResult) -> Grid:
    heads = ("model", "subject", "output", "difference", "tolerance", "of another input")
    rows = tuple(
        (s.model, s.subject, name, number(value), number(s.tolerance), number(s.unrelated[name]))
        for s in result.subjects
        for name, value in s.differences.items()
    )
    notes = ("The largest difference from transformers in float32, relative to the largest value of the output.",)
    return Grid("Agreement with transformers", heads, rows, notes)


def _counted(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def plot(result: SenseResult) -> str:
    """A chart for each number of threads: edgec's time and how many times as long peers of equal bits take, as SVG."""
    from edgec.svg import Points, point_chart, stack

    charts, names = list[str](), list[str]()
    for threads in _threads(result):
        groups: dict[str, list[tuple[float, float, str]]] = {}
        for speed in result.speeds:
            value = ratio(result, speed) if speed.threads == threads else None
            if value is not None:
                place = (speed.wall_ms.median / value, value, f"{speed.model}, {speed.case}")
                groups.setdefault(speed.subject, []).append(place)
        points = [
            Points(name, tuple((x, y) for x, y, _ in places), tuple(label for *_, label in places), ())
            for name, places in groups.items()
        ]
        names += groups
        title = f"How many times as long peers take as edgec, {_counted(threads)}, measured"
        charts += [point_chart(title, "edgec, ms", "times", points)] if points else []
    return stack(charts, names)
