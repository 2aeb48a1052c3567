"""The objects that all parts of a run share: settings, the workshop, the clock, and results as they come in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.harness.artifacts import Workshop
from benchmarks.harness.cases import CASES, Case
from benchmarks.harness.results import Failure
from benchmarks.harness.rounds import Rounds
from benchmarks.harness.store import Store
from benchmarks.harness.subjects import FEW_BITS, HELD, LARGE, LONG_CONTEXT, MORE, QUICK_CONTEXT, SPEED, USUAL, Subject

Fields = dict[str, list[Any]]


@dataclass(frozen=True)
class Settings:
    """The size of a run.

    Attributes:
        quick: tiny random models and no peers, which checks the harness in a minute or two and measures nothing.
        more: also measure what takes longest.
        threads: each measurement is made with each of these.
        rounds: rounds of processes for each subject and number of threads.
        build: the folder of artifacts, finished measurements and results.
        only: the models to compare; none: all of them, and the comparison over contexts.
    """

    quick: bool
    more: bool
    threads: tuple[int, ...]
    rounds: int
    build: Path
    only: tuple[str, ...] = ()

    @property
    def models(self) -> dict[str, tuple[Subject, ...]]:
        """The subjects by model."""
        if self.quick:
            return {"tiny": SPEED["tiny"]}
        extra, names = (MORE, (*USUAL, *FEW_BITS, *HELD)) if self.more else ({}, USUAL)
        return {name: (*SPEED[name], *extra.get(name, ())) for name in self.only or names}

    @property
    def long_context(self) -> tuple[Subject, ...]:
        """The subjects of the comparison over contexts."""
        if self.only:
            return ()
        return QUICK_CONTEXT if self.quick else LONG_CONTEXT

    @property
    def contexts(self) -> list[int]:
        """The lengths of the prompts."""
        return [16, 32, 64] if self.quick else [128, 256, 512, 1024, 2048, 4096, 8192]

    def cases(self, model: str) -> tuple[Case, ...]:
        """The cases that are measured of a model."""
        return CASES["quick" if self.quick else "short" if model in LARGE else "full"]


@dataclass(frozen=True)
class PartOfRun:
    """A part of the run. ``expected_s``: on an idle machine of two cores, for the estimate of the time left."""

    name: str
    expected_s: float
    work: Callable[[Bench], Fields]


@dataclass
class Bench:
    """A run under way.

    Attributes:
        left_s: expected seconds of the parts after the present one.
        expected_s: expected seconds of the present part.
    """

    settings: Settings
    shop: Workshop
    store: Store
    part: str = ""
    expected_s: float = 0.0
    left_s: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    _began: float = field(default_factory=monotonic)

    def enter(self, part: PartOfRun, left_s: float) -> None:
        """Begin a part of the run."""
        self.part, self.expected_s, self.left_s, self._began = part.name, part.expected_s, left_s, monotonic()

    def say(self, what: str, share: float = 0.0) -> None:
        """Print a line on stderr: the part, what it does now, and about how long the run still takes."""
        spent = monotonic() - self._began
        rest = spent / share - spent if share > 0.1 else max(0.0, self.expected_s - spent)
        print(f"[about {(rest + self.left_s) / 60:.0f} min left] {self.part}: {what}", file=sys.stderr, flush=True)

    def subjects(self, model: str) -> list[Subject]:
        """A model's subjects whose artifacts could be made so far."""
        return [subject for subject in self.settings.models.get(model, ()) if self.shop.can_make(subject)]

    def all_subjects(self) -> list[Subject]:
        """The subjects of every model whose artifacts could be made so far."""
        return [subject for model in self.settings.models for subject in self.subjects(model)]

    def long_context(self) -> list[Subject]:
        """The subjects of the comparison over contexts whose artifacts could be made so far."""
        return [subject for subject in self.settings.long_context if self.shop.can_make(subject)]

    def rounds(self, budget_s: float) -> Rounds:
        """Rounds of turns with this run's settings."""
        settings = self.settings
        return Rounds(self.shop, self.store, settings.rounds, settings.threads, budget_s, self.say)

    def fail(self, what: str, why: str) -> None:
        """Record something that could not be measured."""
        self.failures.append(Failure(part=what, what=why))

    def once(self, key: Mapping[str, Any], work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The kept result of a piece of work, or a new one, which is kept."""
        return self.store.once({"part": self.part, **key}, work)
