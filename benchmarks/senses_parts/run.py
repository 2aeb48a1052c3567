"""Makes the subjects of the models, checks that each computes its model, and measures them in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any

from benchmarks.harness.artifacts import Workshop
from benchmarks.harness.machine import machine, versions
from benchmarks.harness.processes import ProcessFailed, run_worker
from benchmarks.harness.results import Failure, Speed
from benchmarks.harness.rounds import Rounds, missed, speeds
from benchmarks.harness.store import Store
from benchmarks.harness.subjects import Subject
from benchmarks.peers.environment import ENVIRONMENTS, LLAMA
from benchmarks.senses_parts.models import SenseModel, prepared
from benchmarks.senses_parts.result import SenseFacts, SenseResult, SenseSubject
from benchmarks.senses_parts.subjects import bits_of, subjects_of

AGREEMENT = "benchmarks.senses_parts.agreement"
TOLERANCES: Mapping[str, float] = {"float": 2e-3, "8 bits": 0.25, "4 bits": 0.8}
"""By the bits of the matrices, how far outputs may be from transformers', relative to the largest value.

Float differs by 5e-7 at most in the tiny models; keys given in the wrong place differed by 0.15. With random weights 8
bits moved states of width 32 by 0.13 (CTranslate2), 4 bits by as much: such forms are held by the float ones,
which the same exporters make.
"""
_TIMEOUT_S, _BUDGET_S = 900.0, 7200.0


@dataclass(frozen=True)
class Settings:
    """What is measured, and how often.

    Attributes:
        shop: where artifacts are made and kept.
        models: what is compared.
        rounds: processes of each subject for each number of threads.
        threads: each round has all of these.
        peers: whether other runtimes take part.
        say: told what is done.
    """

    shop: Workshop
    models: tuple[SenseModel, ...]
    rounds: int
    threads: tuple[int, ...]
    peers: bool
    say: Callable[[str], None]


@dataclass
class Comparison:
    """One run; what fails is a failure, and the rest is measured."""

    settings: Settings
    store: Store
    failures: list[Failure] = field(default_factory=list)
    subjects: list[SenseSubject] = field(default_factory=list)
    speeds: list[Speed] = field(default_factory=list)

    def prepare(self) -> None:
        """Make environments, tensors and artifacts; nothing is measured."""
        for model in self.settings.models:
            self._made(model)

    def run(self, load_before: float | None) -> SenseResult:
        """Measure everything."""
        models = self.settings.models
        for model in models:
            self._compare(model)
        makers = dict.fromkeys(s.maker for m in models for s in subjects_of(m, self.settings.peers))
        pins = [ENVIRONMENTS[maker].versions() for maker in makers if maker in ENVIRONMENTS]
        return SenseResult(
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            rounds=self.settings.rounds,
            machine=machine(load_before),
            versions={name: text for some in (_own_versions(), *pins) for name, text in some.items()},
            models=[SenseFacts(name=model.name, about=model.about) for model in models],
            subjects=self.subjects,
            speeds=self.speeds,
            failures=self.failures,
        )

    def _compare(self, model: SenseModel) -> None:
        agreeing = self._agreeing(model, self._made(model))
        rounds = Rounds(
            self.settings.shop,
            self.store,
            self.settings.rounds,
            self.settings.threads,
            _BUDGET_S,
            lambda what, share: self.settings.say(f"{share:.0%} of {what}"),
        )
        job = {"kind": "speed", "cases": [case.to_json() for case in model.cases]}
        outcomes, failures = rounds.take(agreeing, job)
        self.failures += failures
        failed = {failure.part for failure in failures}
        kept = [outcome for outcome in outcomes if _part(outcome.turn.subject) not in failed]
        self.speeds += speeds(kept, model.cases, load="load")

    def _made(self, model: SenseModel) -> list[Subject]:
        """The subjects whose artifacts there are."""
        prepared(model, self.settings.shop.model_folder(model))
        return [subject for subject in subjects_of(model, self.settings.peers) if self._can_make(subject)]

    def _can_make(self, subject: Subject) -> bool:
        self.settings.say(f"{_part(subject)}: artifact")
        try:
            self.settings.shop.interpreter(subject)
            self.settings.shop.made(subject)
        except ProcessFailed as failed:
            self.failures.append(missed(subject, failed))
            return False
        return True

    def _agreeing(self, model: SenseModel, subjects: Sequence[Subject]) -> list[Subject]:
        """The subjects that compute the model; what they take of memory is measured too."""
        folder = self.settings.shop.build / "outputs" / model.name
        folder.mkdir(parents=True, exist_ok=True)
        files = {s.name: str(folder / f"{s.name}.npz") for s in subjects if self._written(s, folder / f"{s.name}.npz")}
        self.settings.say(f"{model.name}: transformers")
        job = {"folder": str(self.settings.shop.model_folder(model)), "sense": model.sense, "given": dict(model.given)}
        compared = run_worker(AGREEMENT, {**job, "made": files}, timeout_s=_TIMEOUT_S) if files else {}
        found = {s.name: self._judged(model, s, compared[s.name]) for s in subjects if s.name in compared}
        facts = {name: fact for name, fact in found.items() if fact is not None}
        self.subjects += facts.values()
        self.failures += [_other(fact) for fact in facts.values() if not fact.agrees]
        return [subject for subject in subjects if subject.name in facts and facts[subject.name].agrees]

    def _written(self, subject: Subject, out: Path) -> bool:
        self.settings.say(f"{_part(subject)}: outputs")
        try:
            self._work(subject, {"kind": "outputs", "out": str(out)})
        except ProcessFailed as failed:
            self.failures.append(missed(subject, failed))
            return False
        return True

    def _work(self, subject: Subject, job: Mapping[str, Any]) -> dict[str, Any]:
        shop = self.settings.shop
        extra = {"artifact": str(shop.made(subject).path), "threads": self.settings.threads[0]}
        whole = {**job, **subject.job, **extra}
        return run_worker(subject.worker, whole, python=shop.interpreter(subject), timeout_s=_TIMEOUT_S)

    def _judged(self, model: SenseModel, subject: Subject, compared: Mapping[str, Any]) -> SenseSubject | None:
        """The facts of a subject; none, but a failure, where its outputs are not numbers or its memory is not known."""
        odd = [name for name, value in compared["differences"].items() if not isfinite(value)]
        if odd:
            what = f"not timed: its {odd[0]} are not finite, or of another shape than transformers'"
            self.failures.append(Failure(part=_part(subject), what=what))
            return None
        try:
            return self._facts(model, subject, compared)
        except ProcessFailed as failed:
            self.failures.append(missed(subject, failed))
            return None

    def _facts(self, model: SenseModel, subject: Subject, compared: Mapping[str, Any]) -> SenseSubject:
        self.settings.say(f"{_part(subject)}: memory")
        taken = self._work(subject, {"kind": "memory", "cases": list(model.memory_cases)})
        path, form = self.settings.shop.made(subject).path, subject.job.get("form")
        bits = bits_of(subject)
        return SenseSubject(
            model=model.name,
            subject=subject.name,
            bits=bits,
            file_bytes=self.settings.shop.made(subject).file_bytes if form is None else _size(path / form),
            peak_bytes=taken["peak_bytes"],
            idle_bytes=taken["idle_bytes"],
            forecast_bytes=None if subject.peer else forecast_bytes(model, subject.options["recipe"]),
            differences=compared["differences"],
            unrelated=compared["unrelated"],
            tolerance=TOLERANCES[bits],
        )


def _own_versions() -> dict[str, str]:
    """The versions of what runs here, without the peers of language models."""
    absent = LLAMA.versions()
    return {name: text for name, text in versions().items() if name not in absent}


def forecast_bytes(model: SenseModel, recipe: str) -> tuple[int, int]:
    """Low and high end of the peak of memory that ``edgec plan`` forecasts; without what an image encoder needs."""
    from benchmarks.forecasts import planned_footprint

    peak = planned_footprint(model.config, recipe, model.context).peak_bytes
    return round(peak.low), round(peak.high)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _part(subject: Subject) -> str:
    return f"{subject.model.name}: {subject.name}"


def _other(fact: SenseSubject) -> Failure:
    worst = max(fact.differences, key=lambda name: fact.differences[name])
    what = f"not timed: its {worst} differ from transformers' by {fact.differences[worst]:.3g} of the largest value"
    return Failure(part=f"{fact.model}: {fact.subject}", what=f"{what} (at most {fact.tolerance})")
