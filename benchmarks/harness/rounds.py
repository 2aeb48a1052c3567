"""Subjects measured in turns, each measurement in a fresh process, so that slow drifts affect all of them equally."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from benchmarks.harness.artifacts import Workshop
from benchmarks.harness.cases import Case
from benchmarks.harness.processes import ProcessFailed, run_worker
from benchmarks.harness.results import TIME, ContextCurve, Failure, Speed, Spread
from benchmarks.harness.store import Store
from benchmarks.harness.subjects import Subject
from edgec.page_cache import warm_pages

_TIMEOUT_S = 900.0
_REASON = 300
_LOADING = {"load", "first token"}
LOAD, FIRST_LOAD = "load to first token", "first load to first token"


@dataclass(frozen=True)
class Turn:
    """One process: a subject with ``threads`` threads, for the ``round``-th time."""

    subject: Subject
    threads: int
    round: int


@dataclass(frozen=True)
class Outcome:
    """A turn and its result."""

    turn: Turn
    result: Mapping[str, Any]


@dataclass(frozen=True)
class Rounds:
    """The rounds of a measurement.

    Attributes:
        count: number of rounds, if the time allows.
        threads: each round measures every subject with each of these.
        budget_s: seconds after which no round begins except the first two.
        say: told what is measured, and the share that is done, 0..1.
    """

    shop: Workshop
    store: Store
    count: int
    threads: tuple[int, ...]
    budget_s: float
    say: Callable[[str, float], None]

    def take(self, subjects: Sequence[Subject], job: Mapping[str, Any]) -> tuple[list[Outcome], list[Failure]]:
        """Run the job for all subjects; a subject that fails once is left out from then on."""
        began, outcomes, failures = monotonic(), list[Outcome](), list[Failure]()
        turns = [Turn(s, t, r) for r in range(self.count) for t in self.threads for s in subjects]
        for done, turn in enumerate(turns):
            if any(f.part == _label(turn.subject) for f in failures):
                continue
            if turn.round >= 2 and monotonic() - began > self.budget_s:
                failures.append(Failure(part=TIME, what=f"{job['kind']}: {turn.round} of {self.count} rounds"))
                break
            self.say(f"{_label(turn.subject)}, {turn.threads} threads, round {turn.round + 1}", done / len(turns))
            try:
                outcomes.append(Outcome(turn, self._result(turn, job)))
            except ProcessFailed as failed:
                failures.append(missed(turn.subject, failed))
        return outcomes, failures

    def _result(self, turn: Turn, job: Mapping[str, Any]) -> dict[str, Any]:
        subject, made = turn.subject, self.shop.made(turn.subject)
        extra = {"artifact": str(made.path), "threads": turn.threads, "context": subject.context}
        whole = {**job, **subject.job, **extra}
        python, held = self.shop.interpreter(subject), {"EDGEC_ISA": subject.isa} if subject.isa else {}

        def work() -> dict[str, Any]:
            _read_in(made.path)
            return run_worker(subject.worker, whole, python=python, environment=held, timeout_s=_TIMEOUT_S)

        return self.store.once({"worker": subject.worker, "job": whole, "round": turn.round, **held}, work)


def _read_in(artifact: Path) -> None:
    """Read all files made with an artifact, which has a folder of its own, so that no load waits for the disk."""
    folder = artifact if artifact.is_dir() else artifact.parent
    for path in folder.rglob("*"):
        if path.is_file():
            warm_pages(path)


def missed(subject: Subject, failed: ProcessFailed, of: str = "") -> Failure:
    """The failure of a subject; of an optional one only the reason stands in the tables, the last line of what it said.

    Args:
        subject: the subject that could not be made or measured.
        failed: its process.
        of: words before the subject's name.
    """
    lines = str(failed).strip().splitlines()
    what = f"not run: {lines[-1][-_REASON:]}" if subject.optional else str(failed)
    return Failure(part=of + _label(subject), what=what, optional=subject.optional)


def _label(subject: Subject) -> str:
    return f"{subject.model.name}: {subject.name}"


def _by_subject(outcomes: Iterable[Outcome]) -> Iterator[tuple[Subject, int, list[Mapping[str, Any]]]]:
    """The results of all rounds as (subject, threads, results), in the order of the first round."""

    def place(outcome: Outcome) -> tuple[str, int]:
        return outcome.turn.subject.name, outcome.turn.threads

    ordered = list(outcomes)
    first = {place(outcome): index for index, outcome in reversed(list(enumerate(ordered)))}
    ordered.sort(key=lambda outcome: first[place(outcome)])
    for (_, threads), group in groupby(ordered, place):
        same = list(group)
        yield same[0].turn.subject, threads, [outcome.result for outcome in same]


def speeds(outcomes: Iterable[Outcome], cases: Sequence[Case], load: str = LOAD) -> list[Speed]:
    """The speed of every case of every subject over all rounds, and as case ``load`` the time to the first logits."""
    rows = []
    for subject, threads, results in _by_subject(outcomes):
        others = [result["others"] for result in results if result["others"] is not None]
        common: dict[str, Any] = {
            "model": subject.model.name,
            "subject": subject.name,
            "threads": threads,
            "others": max(others, default=None),
        }
        walls, cpus = _loads(results, "wall_s"), _loads(results, "cpu_s")
        rows.append(Speed(case=load, tokens=1, wall_ms=spread(walls), cpu_ms=spread(cpus), **common))
        timed = {sample["case"] for result in results for sample in result["samples"]}
        rows += [_speed(case, results, common) for case in cases if case.name in timed]
    return rows


def _loads(results: Sequence[Mapping[str, Any]], clock: str) -> list[float]:
    return [1e3 * sum(s[clock] for s in result["samples"] if s["case"] in _LOADING) for result in results]


def _speed(case: Case, results: Sequence[Mapping[str, Any]], common: Mapping[str, Any]) -> Speed:
    samples = [s for result in results for s in result["samples"] if s["case"] == case.name]
    wall, cpu = (spread([1e3 * s[clock] / case.steps for s in samples]) for clock in ("wall_s", "cpu_s"))
    return Speed(case=case.name, tokens=case.tokens, wall_ms=wall, cpu_ms=cpu, **common)


def spread(values: Sequence[float]) -> Spread:
    """The median, quartiles, extremes and count of at least one value."""
    low, q1, median, q3, high = (float(v) for v in np.percentile(values, [0, 25, 50, 75, 100]))
    return Spread(median=median, low=low, q1=q1, q3=q3, high=high, count=len(values))


def curves(outcomes: Iterable[Outcome]) -> list[ContextCurve]:
    """The time to the first token and of decoding, by context."""
    return [_curve(subject, threads, results) for subject, threads, results in _by_subject(outcomes)]


def _curve(subject: Subject, threads: int, results: Sequence[Mapping[str, Any]]) -> ContextCurve:
    contexts, steps = results[0]["contexts"], results[0]["steps"] - 1
    upto = range(1, len(contexts) + 1)
    ttft = [[1e3 * sum(span["wall_s"] for span in result["prefill"][:n]) for result in results] for n in upto]
    decode = [[1e3 * result["decode"][n - 1]["wall_s"] / steps for result in results] for n in upto]
    return ContextCurve(
        subject=subject.name,
        threads=threads,
        contexts=contexts,
        ttft_ms=[spread(values) for values in ttft],
        decode_ms=[spread(values) for values in decode],
    )
