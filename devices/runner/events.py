"""The events of ``edgec-runner`` that a measurement is made of, with the ranges their figures must lie in."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from edgec.devices.answers import MOST_BYTES, AnswerCount, AnswerShare, Gap, Milliseconds, Threads

# The runner writes -1 where the kernel does not tell it.
_Memory = Annotated[int, Field(ge=-1, le=MOST_BYTES)]


class RunnerEvent(BaseModel):
    """Base of all: numbers are numbers, what is not needed is ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    name: ClassVar[str]

    def told_ms(self) -> float:
        """All time that the event says was spent."""
        return 0.0


class Loaded(RunnerEvent):
    """The model is loaded; ``resident_share``: of the artifact in the page cache before, None where unknown."""

    name = "loaded"
    load_ms: Milliseconds
    threads: Threads
    resident_share: AnswerShare | None
    baseline_rss_bytes: _Memory

    def told_ms(self) -> float:
        """The load."""
        return self.load_ms


class Generated(RunnerEvent):
    """One generation. ``elapsed_ms``: in a sustained run, from its start to this generation's end."""

    name = "generated"
    tokens: list[AnswerCount]
    ttft_ms: Milliseconds
    token_ms: list[Gap]
    peak_rss_bytes: _Memory | None = None
    elapsed_ms: Milliseconds | None = None

    def told_ms(self) -> float:
        """The prompt and all tokens."""
        return self.ttft_ms + sum(self.token_ms)


class Ended(RunnerEvent):
    """The runner's process ended."""

    name = "ended"
    status: Annotated[int, Field(ge=0, le=255)]
