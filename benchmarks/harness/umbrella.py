"""``make bench``: every part in order, tables on the terminal, one results file with Markdown and plots."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.harness.artifacts import Workshop
from benchmarks.harness.bench import Bench, Settings
from benchmarks.harness.machine import host_facts, identity, machine, versions
from benchmarks.harness.parts import parts
from benchmarks.harness.processes import ROOT, ProcessFailed
from benchmarks.harness.report import print_report, save_report
from benchmarks.harness.results import TIME, Results
from benchmarks.harness.store import Store
from benchmarks.harness.subjects import SPEED

_ROUNDS, _INTERRUPTED = 3, 130


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    quick: bool
    more: bool
    fresh: bool
    only: tuple[str, ...]
    models: tuple[str, ...]
    build: Path


def measure(options: Options) -> Results:
    """Run the parts; work that an interrupted run of the same sources finished here is kept, unless ``fresh``."""
    os.environ["EDGEC_CACHE_DIR"] = str(options.build / "cache")
    options.build.mkdir(parents=True, exist_ok=True)
    bench = _bench(options)
    began, load_before = datetime.now(UTC).isoformat(timespec="seconds"), host_facts().load_average
    all_parts = parts(options.quick, options.more, options.models)
    wanted = [part for part in all_parts if not options.only or part.name in options.only]
    fields, seconds = dict[str, Any](), dict[str, float]()
    for index, part in enumerate(wanted):
        bench.enter(part, sum(later.expected_s for later in wanted[index + 1 :]))
        start = monotonic()
        for name, values in _of_part(bench, part.work).items():
            fields.setdefault(name, []).extend(values)
        seconds[part.name] = round(monotonic() - start, 1)
    return Results(
        date=began,
        quick=options.quick,
        seconds=seconds,
        versions=versions() | dict(fields.pop("versions", [])),
        machine=machine(load_before),
        scripts=dict(fields.pop("scripts", [])),
        failures=bench.failures,
        **fields,
    )


def _of_part(bench: Bench, work: Callable[[Bench], dict[str, list[Any]]]) -> dict[str, list[Any]]:
    try:
        return work(bench)
    except ProcessFailed as failed:
        bench.fail(bench.part, str(failed))
        return {}


def _bench(options: Options) -> Bench:
    own = identity()
    kept = options.build / f"run-{own}"
    if options.fresh:
        shutil.rmtree(kept, ignore_errors=True)
    rounds = 2 if options.quick else _ROUNDS
    settings = Settings(options.quick, options.more, (1, 2), rounds, options.build, options.models)
    return Bench(settings, Workshop(options.build, own), Store(kept))


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny random models, no peers: checks the harness")
    parser.add_argument("--all", action="store_true", help="also measure what takes longest (stock export of SmolLM2)")
    parser.add_argument("--fresh", action="store_true", help="measure again what an interrupted run finished")
    parser.add_argument("--only", action="append", default=[], metavar="PART", help="just this part; repeatable")
    names = sorted(SPEED)
    parser.add_argument("--model", action="append", default=[], choices=names, help="just this model; repeatable")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "bench", help="where everything is kept")
    given = parser.parse_args(arguments)
    return Options(given.quick, given.all, given.fresh, tuple(given.only), tuple(given.model), given.build.resolve())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save; returns 1 where something could not be measured, 130 when interrupted."""
    options = _options(arguments)
    try:
        results = measure(options)
    except KeyboardInterrupt:
        print("interrupted; the next run continues from here", file=sys.stderr)
        return _INTERRUPTED
    print_report(results)
    for path in save_report(results, options.build, "some-parts" if options.only else "results"):
        print(path)
    return 1 if any(failure.part != TIME and not failure.optional for failure in results.failures) else 0


if __name__ == "__main__":
    sys.exit(main())
