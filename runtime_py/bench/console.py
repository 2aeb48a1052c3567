"""The output of ``edgec bench`` on a terminal: what is being measured, then the table of each device."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.text import Text

from edgec.errors import EdgecError
from edgec.runtime_py.bench.bench import BenchResult
from edgec.runtime_py.bench.devices import Outcome
from edgec.runtime_py.bench.record import RunRecord
from edgec.runtime_py.bench.table import load_warning, profile_tables, table
from edgec.terminal import make_console


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A status line on stderr that names the stage."""
    with make_console(stderr=True).status("opening the bundle") as status:
        yield lambda text: status.update(Text(f"measuring {text}"))


def report(outcomes: Sequence[Outcome], as_json: bool) -> None:
    """Print the results to stdout, and raise the first error once all others are printed.

    Raises:
        EdgecError: the error of the first device that failed.
    """
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if len(outcomes) == 1 and errors:
        raise errors[0]
    if as_json:
        parts = [_fields(outcome) for outcome in outcomes]
        print(json.dumps(parts[0] if len(parts) == 1 else {"devices": parts}))
    else:
        for outcome in outcomes:
            _print(outcome)
    if errors:
        raise errors[0] if len(errors) == 1 else _several(errors, len(outcomes))


def _fields(outcome: Outcome) -> dict[str, Any]:
    if outcome.result is None:
        return {"device": outcome.device, "error": outcome.error.to_json() if outcome.error else None}
    result = outcome.result
    fields: dict[str, Any] = {"figures": [f.to_json() for f in result.figures]}
    fields["out"] = str(result.out) if result.out else None
    records = [record.model_dump(mode="json") for record in result.records]
    warnings = {"warnings": _warnings(result)}
    return {
        "device": outcome.device,
        "simulated": result.records[0].simulated,
        **warnings,
        **fields,
        "records": records,
    }


def _warnings(result: BenchResult) -> list[str]:
    return [said for record in result.records if isinstance(record, RunRecord) and (said := load_warning(record))]


def _print(outcome: Outcome) -> None:
    if outcome.result is None:
        print(f"{outcome.device}: {outcome.error}")
    else:
        _print_result(outcome.result)


def _print_result(result: BenchResult) -> None:
    console = make_console()
    console.print(table(result))
    for profile in profile_tables(result.records):
        console.print(profile)
    for warning in _warnings(result):
        print(warning, file=sys.stderr, flush=True)
    for what, path in (("records", result.out), ("plot", result.plot)):
        if path is not None:
            console.print(f"{what}: {path}", soft_wrap=True, markup=False, emoji=False)


def _several(errors: Sequence[EdgecError], count: int) -> EdgecError:
    first = errors[0]
    return type(first)(
        f"{len(errors)} of {count} devices failed.", first.where, first.what, first.fix or "see above", first.code
    )
