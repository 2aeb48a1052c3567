"""The events of ``edgec-runner`` that measurements are computed from, with the valid ranges of their figures."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from edgec.devices.answers import MOST_BYTES, AnswerCount, AnswerShare, Gap, Milliseconds, Threads

# The runner writes -1 where the kernel does not report memory.
_Memory = Annotated[int, Field(ge=-1, le=MOST_BYTES)]


class RunnerEvent(BaseModel):
    """Base of all events: types are checked strictly, unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")
    name: ClassVar[str]

    def told_ms(self) -> float:
        """The total time that the event reports."""
        return 0.0


class Loaded(RunnerEvent):
    """The model was loaded. ``resident_share``: share of the artifact in the page cache before, None where unknown.

    ``linear_kernel``: the instructions that matrices of few bits are multiplied with; ``linear_kernels``: those that
    the processor has, best first, with a blank between two.
    """

    name = "loaded"
    load_ms: Milliseconds
    threads: Threads
    resident_share: AnswerShare | None
    baseline_rss_bytes: _Memory
    linear_kernel: Annotated[str, Field(pattern=r"^[a-z0-9]{1,16}$")] | None = None
    linear_kernels: Annotated[str, Field(pattern=r"^[a-z0-9]{1,16}( [a-z0-9]{1,16}){0,7}$")] | None = None

    def told_ms(self) -> float:
        """The time of the load."""
        return self.load_ms


class Generated(RunnerEvent):
    """One generation ended. ``elapsed_ms``: in a sustained run, from the run's start to this generation's end."""

    name = "generated"
    tokens: list[AnswerCount]
    ttft_ms: Milliseconds
    token_ms: list[Gap]
    peak_rss_bytes: _Memory | None = None
    elapsed_ms: Milliseconds | None = None

    def told_ms(self) -> float:
        """The time of the prompt and of all tokens."""
        return self.ttft_ms + sum(self.token_ms)


class Ended(RunnerEvent):
    """The runner's process ended."""

    name = "ended"
    status: Annotated[int, Field(ge=0, le=255)]
