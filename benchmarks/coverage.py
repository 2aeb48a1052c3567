"""Every model type that transformers generates text with, from a config to text: ``python -m benchmarks.coverage``.

A tiny random model of each type is exported for a target, and its greedy tokens are compared with transformers' own.
``--modules``: encoders and vision models instead, whose outputs are compared on inputs that the export did not see.
Results are kept one by one, so an interrupted run goes on where it stopped; ``--table`` writes docs/models.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from benchmarks.coverage_parts.check import COLUMNS, Outcome, check, import_heavy_modules, in_process
from benchmarks.coverage_parts.check_module import MODULE_COLUMNS, check_module
from benchmarks.coverage_parts.module_table import module_section
from benchmarks.coverage_parts.table import page
from benchmarks.coverage_parts.tiny import causal_types
from benchmarks.coverage_parts.tiny_modules import module_types

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "coverage_parts" / "outcomes.json"
MODULE_RESULTS = RESULTS.with_name("module_outcomes.json")
PAGE = ROOT / "docs" / "models.md"
_LIMIT_S = 600.0
_OUTCOMES = TypeAdapter(list[Outcome])


def read_outcomes(path: Path) -> dict[tuple[str, str], Outcome]:
    """The last outcome of each type and column."""
    outcomes = _OUTCOMES.validate_json(path.read_bytes()) if path.is_file() else []
    return {(outcome.kind, outcome.column): outcome for outcome in outcomes}


def run(
    kinds: Sequence[str], title: str, work: Callable[[str], Outcome], path: Path, limit_s: float = _LIMIT_S
) -> None:
    """Check types one after another; each outcome is kept as soon as it is known."""
    known = read_outcomes(path)
    for index, kind in enumerate(kinds):
        start = time.monotonic()
        outcome = in_process(partial(work, kind), limit_s) or _silent(kind, title, time.monotonic() - start)
        key = (kind, title)
        known[key] = outcome.model_copy(update={"seconds": round(time.monotonic() - start, 1)})
        _write(known, path)
        print(f"{index + 1}/{len(kinds)} {known[key].model_dump_json()}", flush=True)


def _silent(kind: str, title: str, seconds: float) -> Outcome:
    timeout = seconds >= _LIMIT_S
    reason = f"not finished in {_LIMIT_S:.0f} s" if timeout else "the process ended by a signal"
    return Outcome(kind=kind, column=title, result="timeout" if timeout else "failed", reason=reason)


def _write(outcomes: dict[tuple[str, str], Outcome], path: Path) -> None:
    partial_file = path.with_suffix(".partial")
    lines = ",\n".join(outcomes[key].model_dump_json() for key in sorted(outcomes))
    partial_file.write_text(f"[\n{lines}\n]\n")
    partial_file.rename(path)


@dataclass(frozen=True)
class _Suite:
    """The types of one part of the page, and how each is checked."""

    kinds: Sequence[str]
    columns: Sequence[str]
    results: Path
    check: Callable[[str, str], Outcome]


def _check_causal(column: str, kind: str) -> Outcome:
    return check(kind, COLUMNS[column])


def _check_module(column: str, kind: str) -> Outcome:
    return check_module(kind, MODULE_COLUMNS[column])


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the types that have no outcome yet, or those named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("kinds", nargs="*", help="model types; all without an outcome by default")
    parser.add_argument("--modules", action="store_true", help="encoders and vision models")
    parser.add_argument("--column", choices=list(COLUMNS), default="host", help="what they are exported for")
    parser.add_argument("--results", type=Path, help="the file of outcomes")
    parser.add_argument("--again", nargs="*", metavar="RESULT", help="repeat types with these results")
    parser.add_argument("--table", action="store_true", help="only write docs/models.md")
    options = parser.parse_args(arguments)
    causal = _Suite(causal_types(), list(COLUMNS), RESULTS, _check_causal)
    modules = _Suite(module_types(), list(MODULE_COLUMNS), MODULE_RESULTS, _check_module)
    suite = modules if options.modules else causal
    if options.column not in suite.columns:
        parser.error(f"--modules are exported for {' and '.join(suite.columns)}")
    if not options.table:
        _run_suite(suite, options)
    PAGE.write_text(page(causal.kinds, read_outcomes(causal.results)) + module_section(read_outcomes(modules.results)))
    return 0


def _run_suite(suite: _Suite, options: argparse.Namespace) -> None:
    import_heavy_modules()
    path, column = options.results or suite.results, options.column
    known = read_outcomes(path)
    again = {kind for (kind, at), o in known.items() if at == column and o.result in (options.again or ())}
    missing = [kind for kind in suite.kinds if (kind, column) not in known or kind in again]
    run(options.kinds or missing, column, partial(suite.check, column), path)


if __name__ == "__main__":
    sys.exit(main())
