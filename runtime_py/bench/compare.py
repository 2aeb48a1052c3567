"""Two runs side by side: ratios with their spread, and an error where the runs are not comparable."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from edgec.errors import InputError
from edgec.runtime_py.bench.record import AnyRecord, Comparability, read_records
from edgec.runtime_py.bench.summary import BenchSamples, samples, shown
from edgec.terminal import WordTable, make_console

RESAMPLES = 2000
CONFIDENCE = (2.5, 97.5)


@dataclass(frozen=True)
class Ratio:
    """The ratio of one figure of run B to that of run A.

    Attributes:
        a, b: medians in ``unit``.
        ratio: b / a.
        low, high: 95 % percentile bootstrap of the ratio of medians; None with fewer than 3 values on a side.
        better: B is better (True), worse (False), or the interval holds 1 or is unavailable (None).
    """

    name: str
    unit: str
    a: float
    b: float
    ratio: float
    low: float | None
    high: float | None
    better: bool | None


@dataclass(frozen=True)
class Comparison:
    """Two runs. ``differences``: the fields that differ and were allowed to, as (name, A's value, B's value)."""

    a: str
    b: str
    differences: tuple[tuple[str, str, str], ...]
    ratios: tuple[Ratio, ...]


def compare(a: Path, b: Path, allow: Sequence[str] = ()) -> Comparison:
    """Compare two records of ``edgec bench``.

    Args:
        a: the run to compare with.
        b: the run compared.
        allow: names of fields of ``Comparability`` that may differ.

    Raises:
        InputError: E160 the runs differ in a field that is not allowed (or ``allow`` names no field), or an emulator
            made one; E161 a file is not the record of one run.
    """
    runs = [read_records(path) for path in (a, b)]
    _refuse_emulators(runs)
    differences = _differences(runs[0][0].comparability, runs[1][0].comparability)
    _refuse_unlike(differences, allow, f"{a}, {b}")
    # Memory over idle may be 0, which allows no ratio.
    pairs = [(x, y) for x in samples(runs[0]) if np.median(x.values) for y in samples(runs[1]) if x.name == y.name]
    return Comparison(_title(runs[0]), _title(runs[1]), tuple(differences), tuple(_ratio(x, y) for x, y in pairs))


def _refuse_emulators(runs: Sequence[Sequence[AnyRecord]]) -> None:
    for records in runs:
        if records[0].simulated:
            raise InputError(
                "An emulator's run cannot be compared.",
                where=records[0].comparability.device,
                why="its times are simulated, so they say nothing about speed",
                fix="measure on a device",
                code="E160",
            )


def _differences(a: Comparability, b: Comparability) -> list[tuple[str, str, str]]:
    pairs = [(name, getattr(a, name), getattr(b, name)) for name in Comparability.model_fields]
    return [(name, str(x), str(y)) for name, x, y in pairs if x != y]


def _refuse_unlike(differences: Iterable[tuple[str, str, str]], allow: Sequence[str], where: str) -> None:
    foreign = [name for name in allow if name not in Comparability.model_fields]
    if foreign:
        names = ", ".join(Comparability.model_fields)
        raise InputError(
            f"{foreign[0]!r} is not a field of a run.", where="--allow", fix=f"give one of: {names}", code="E160"
        )
    unlike = [difference for difference in differences if difference[0] not in allow]
    if unlike:
        raise InputError(
            f"The runs are not comparable: they differ in {', '.join(name for name, _, _ in unlike)}.",
            where=where,
            why="; ".join(f"{name}: {x} and {y}" for name, x, y in unlike),
            fix="measure both the same way, or accept it with " + " ".join(f"--allow {name}" for name, _, _ in unlike),
            code="E160",
        )


def _title(records: Sequence[AnyRecord]) -> str:
    subject = records[0].subject
    return f"{subject.name} (recipe {subject.recipe}, {subject.digest[:8]})"


def _ratio(a: BenchSamples, b: BenchSamples) -> Ratio:
    x, y = float(np.median(a.values)), float(np.median(b.values))
    low, high = _bootstrap(a.values, b.values)
    return Ratio(a.name, a.unit, x, y, y / x, low, high, _better(low, high, a.higher_is_better))


def _bootstrap(a: Sequence[float], b: Sequence[float]) -> tuple[float | None, float | None]:
    if min(len(a), len(b)) < 3:
        return None, None
    rng = np.random.default_rng(0)
    medians = [np.median(rng.choice(np.asarray(side), (RESAMPLES, len(side))), axis=1) for side in (a, b)]
    low, high = np.percentile(medians[1] / medians[0], CONFIDENCE)
    return float(low), float(high)


def _better(low: float | None, high: float | None, higher_is_better: bool) -> bool | None:
    if low is None or high is None or low <= 1 <= high:
        return None
    return (low > 1) is higher_is_better


VERDICT = {True: "better", False: "worse", None: "-"}


def report(comparison: Comparison, as_json: bool) -> None:
    """Print the comparison to stdout."""
    if as_json:
        print(json.dumps(asdict(comparison)))
        return
    console = make_console()
    console.print(f"A: {comparison.a}\nB: {comparison.b}", soft_wrap=True, markup=False)
    for name, a, b in comparison.differences:
        console.print(f"allowed difference: {name}: {a} and {b}", soft_wrap=True, markup=False)
    console.print(_table(comparison))


def _table(comparison: Comparison) -> WordTable:
    caption = "measured; medians; 95 % bootstrap interval of the ratio; '-': unavailable, or it holds 1"
    table = WordTable(caption=caption)
    for column in ("", "A", "B", "unit", "B / A", "interval", "B is"):
        table.add_column(column, justify="right" if column in ("A", "B", "B / A") else "left")
    for row in comparison.ratios:
        interval = "-" if row.low is None else f"{row.low:.2f}-{row.high:.2f}"
        values = (shown(row.a), shown(row.b), row.unit, f"{row.ratio:.2f}", interval, VERDICT[row.better])
        table.add_row(row.name, *values)
    return table
