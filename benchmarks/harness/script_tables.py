"""The scripts' measurements as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.harness.grid import Grid, number
from benchmarks.harness.results import Results


def script_grids(results: Results) -> Iterator[Grid]:
    """One table for each script."""
    for name, result in results.scripts.items():
        yield _grid(f"benchmarks/{name}.py", result)


def _grid(title: str, result: Any) -> Grid:
    """A script's result as a table: its ``rows`` become lines, or columns where they have more figures than rows."""
    rows = result["rows"] if isinstance(result, Mapping) and isinstance(result.get("rows"), list) else [result]
    leaves = [dict(_leaves(row)) for row in rows]
    figures = list(dict.fromkeys(figure for row in leaves for figure in row))
    lines = [[_text(row.get(figure, "-")) for figure in figures] for row in leaves]
    others = {} if rows[0] is result else {key: value for key, value in result.items() if key != "rows"}
    notes = (", ".join(f"{key}: {_text(value)}" for key, value in _leaves(others)),) if others else ()
    if len(rows) >= len(figures):
        return Grid(title, tuple(figures), tuple(map(tuple, lines)), notes)
    columns = zip(figures, *lines, strict=True)
    heads = [""] if len(rows) == 1 else [str(index + 1) for index in range(len(rows))]
    return Grid(title, ("figure", *heads), tuple(columns), notes)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers and texts by their path; lists of numbers stay whole."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path} {key}".strip())
    elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path} {index}".strip())
    else:
        yield path, value


def _text(value: Any) -> str:
    if isinstance(value, float):
        return number(value)
    return ", ".join(map(_text, value)) if isinstance(value, list) else str(value)
