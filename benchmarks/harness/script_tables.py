"""What the scripts measured, as tables: their own Markdown where they give it, else field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.harness.grid import Grid, number
from benchmarks.harness.results import Results


def script_grids(results: Results) -> Iterator[Grid]:
    """One table for each script."""
    for name, found in results.scripts.items():
        rows = tuple((path, _text(value)) for path, value in _leaves(found))
        yield Grid(f"benchmarks/{name}.py", ("figure", "value"), rows)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers and texts by their place; lists of numbers stay whole."""
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
