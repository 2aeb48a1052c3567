"""What a text may reuse of those before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PromptCache:
    """What a text may reuse of those before it, and leaves for the next.

    Attributes:
        recall: makes the KV cache hold as many leading tokens of a prompt as it can without computing, and returns how
            many; fewer than all of them.
        keep: called when the prompt is computed, before the first new token is fed.
    """

    recall: Callable[[Sequence[int]], int] = lambda _: 0
    keep: Callable[[], None] = lambda: None


EMPTY = PromptCache()
