"""What a served bundle has done since the server began: tokens, answers, times; read by /metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from edgec.runtime_py.generation.generate import Generation

TTFT_BOUNDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper ends of the histogram's buckets, seconds."""


@dataclass
class TimeHistogram:
    """How often values fell between some bounds; the last bucket has no upper end."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class AnswerMeasures:
    """Counts of one bundle's answers; written by its threads.

    Attributes:
        tokens: by kind: ``prompt`` as read, ``cached`` of these taken from a KV cache, ``new``.
        finished: answers by the reason why they ended; ``error`` for those that did not.
        first_seconds: from a request's place in the queue to its first piece.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.tokens, self.finished = Counter[str](), Counter[str]()
        self.first_seconds = TimeHistogram(TTFT_BOUNDS)
        self._turn = Lock()

    def begun(self, seconds: float) -> None:
        """Count the first piece of an answer."""
        with self._turn:
            self.first_seconds.add(seconds)

    def ended(self, made: Generation | None) -> None:
        """Count an answer; None: it failed, or was stopped."""
        with self._turn:
            self.finished["error" if made is None else made.finish_reason] += 1
            if made is not None:
                read = {"prompt": made.prompt_tokens, "cached": made.cached_tokens, "new": len(made.tokens)}
                self.tokens.update(read)
