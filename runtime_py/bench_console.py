"""``edgec bench`` on a terminal: what is being measured, then the table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from edgec.runtime_py.bench import BenchResult
from edgec.runtime_py.bench_table import profile_tables, table


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A status line on stderr that names the stage."""
    with Console(stderr=True).status("opening the bundle") as status:
        yield lambda text: status.update(f"measuring {text}")


def report(result: BenchResult, as_json: bool) -> None:
    """Print the result to stdout."""
    if as_json:
        fields = {"figures": [f.to_json() for f in result.figures], "out": str(result.out) if result.out else None}
        print(json.dumps(fields | {"records": [r.model_dump(mode="json") for r in result.records]}))
        return
    console = Console()
    console.print(table(result))
    for profile in profile_tables(result.records):
        console.print(profile)
    for what, path in (("records", result.out), ("plot", result.plot)):
        if path is not None:
            console.print(f"{what}: {path}", soft_wrap=True)
