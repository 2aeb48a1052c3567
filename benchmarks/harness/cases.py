"""The measurements of a language model, as data: calls of some tokens after a context of some length.

Standard library only: the peers' environments import this module too.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

FORWARD_WIDTHS = (1, 2, 4, 8, 16)
LAST_ROW_WIDTHS = (4, 8, 16)


@dataclass(frozen=True)
class Case:
    """A repeated measurement.

    Attributes:
        name: the name in the tables.
        context: positions already in the KV cache.
        tokens: tokens fed by one call.
        rows: how many of the last tokens logits are computed for.
        steps: calls in a row, each following the one before; the time is that of all of them.
        warmups: repetitions that do not count.
        repeats: repetitions that count.
    """

    name: str
    context: int
    tokens: int
    rows: int = 1
    steps: int = 1
    warmups: int = 1
    repeats: int = 3

    @property
    def end(self) -> int:
        """The first position after everything that the case feeds."""
        return self.context + self.tokens * self.steps

    def to_json(self) -> dict[str, Any]:
        """The case as plain data."""
        return asdict(self)


def forward_cases(context: int, repeats: int, widths: tuple[int, ...] = FORWARD_WIDTHS) -> tuple[Case, ...]:
    """Cases of one call of k tokens with k rows of logits, as verification of k - 1 drafted tokens needs."""
    return tuple(Case(f"forward {k}", context, k, k, repeats=repeats) for k in widths)


def last_row_cases(context: int, repeats: int) -> tuple[Case, ...]:
    """Cases of one call of k tokens with the logits of the last one, the only ones that some runtimes give."""
    return tuple(Case(f"last row {k}", context, k, repeats=repeats) for k in LAST_ROW_WIDTHS)


# Repetitions of one process; there are several rounds of processes.
FULL = (
    Case("prefill 128", 0, 128, repeats=3),
    Case("prefill 512", 0, 512, warmups=0, repeats=2),
    *forward_cases(128, repeats=4),
    *last_row_cases(128, repeats=4),
    Case("decode at 128", 128, 1, steps=16, repeats=3),
    Case("decode at 960", 960, 1, steps=8, repeats=3),
)
# For large models, whose prefill takes seconds.
SHORT = (
    Case("prefill 128", 0, 128, warmups=0, repeats=2),
    Case("prefill 512", 0, 512, warmups=0, repeats=1),
    *forward_cases(128, repeats=2),
    *last_row_cases(128, repeats=2),
    Case("decode at 128", 128, 1, steps=8, repeats=2),
    Case("decode at 960", 960, 1, steps=4, repeats=2),
)
QUICK = (
    Case("prefill 16", 0, 16, repeats=2),
    Case("prefill 32", 0, 32, repeats=2),
    *forward_cases(16, repeats=2),
    Case("decode at 16", 16, 1, steps=4, repeats=2),
    Case("decode at 48", 48, 1, steps=4, repeats=2),
)
CASES = {"full": FULL, "short": SHORT, "quick": QUICK}


def longest(cases: tuple[Case, ...]) -> int:
    """The number of positions that an artifact must serve for these cases."""
    return max(case.end for case in cases)
