"""The result of `benchmarks.senses`: one JSON object. Null is unavailable; all is measured but the forecast."""

from __future__ import annotations

from typing import Literal

from benchmarks.harness.results import Failure, Machine, Part, Speed


class SenseFacts(Part):
    """A model that was compared."""

    name: str
    about: str


class SenseSubject(Part):
    """A model in one runtime's form.

    Attributes:
        bits: of its matrices: ``float``, ``8 bits`` or ``4 bits``.
        file_bytes: of its artifact.
        peak_bytes: most resident memory of a process that loads it and runs its largest cases.
        idle_bytes: of the same process with its libraries loaded, before the model.
        forecast_bytes: low and high end of the peak that ``edgec plan`` forecasts; None where it forecasts none.
        differences: by output, the largest difference from transformers in float32, relative to the largest value.
        unrelated: the same for transformers' own outputs of another input.
        tolerance: the largest difference with which it counts as the same model.
    """

    model: str
    subject: str
    bits: str
    file_bytes: int
    peak_bytes: int | None
    idle_bytes: int | None
    forecast_bytes: tuple[int, int] | None
    differences: dict[str, float]
    unrelated: dict[str, float]
    tolerance: float

    @property
    def agrees(self) -> bool:
        """Whether it computes the model."""
        return max(self.differences.values()) <= self.tolerance

    @property
    def over_idle_bytes(self) -> int | None:
        """The model's share of the peak."""
        if self.peak_bytes is None or self.idle_bytes is None:
            return None
        return self.peak_bytes - self.idle_bytes


class SenseResult(Part):
    """A run."""

    obtained: Literal["measured"] = "measured"
    date: str
    rounds: int
    machine: Machine
    versions: dict[str, str]
    models: list[SenseFacts]
    subjects: list[SenseSubject]
    speeds: list[Speed]
    failures: list[Failure]

    def bits(self, speed: Speed) -> str:
        """The bits of what was timed."""
        return next(s.bits for s in self.subjects if (s.model, s.subject) == (speed.model, speed.subject))
