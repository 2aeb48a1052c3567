"""The time that edgec spends in each operator, as ``edgec bench --profile`` measures it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from benchmarks.harness.grid import Grid, number
from benchmarks.harness.results import Profile, Results


def profile_grids(results: Results) -> Iterator[Grid]:
    """One table for each model and phase, with the numbers of threads next to each other."""
    ordered = sorted(results.profiles, key=lambda profile: (profile.model, profile.phase != "prefill"))
    for (model, phase), group in groupby(ordered, lambda profile: (profile.model, profile.phase)):
        yield _grid(model, phase, list(group))


def _grid(model: str, phase: str, profiles: list[Profile]) -> Grid:
    tokens = profiles[0].tokens
    unit = f"prefill of {tokens} tokens" if phase == "prefill" else "decoded token"
    heads = tuple(f"{what}, {p.threads} threads" for p in profiles for what in ("ms", "share"))
    rows = tuple(_row(row.operator, profiles) for row in profiles[0].operators)
    notes = ("Calls, ms and share are means, the timing of the operators included.",)
    return Grid(f"{model}: where the time goes, per {unit} (measured)", ("operator", "calls", *heads), rows, notes)


def _row(operator: str, profiles: list[Profile]) -> tuple[str, ...]:
    times = [next((row for row in p.operators if row.operator == operator), None) for p in profiles]
    figures = [text for row in times for text in ((number(row.ms), f"{row.share:.1%}") if row else ("-", "-"))]
    return (operator, number(times[0].calls) if times[0] else "-", *figures)
