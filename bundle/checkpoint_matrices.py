"""What became of the matrices that a quantised checkpoint stores as integers, for the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from edgec.bundle.part import JsonCount, JsonPart

Fate = Literal["kept", "re-expressed", "rounded again"]


class CheckpointMatrix(JsonPart):
    """A matrix that the checkpoint stores as integers, and what became of it (measured on the rewritten graph).

    ``found``: its form there (``Q4_1``); ``used``: its form in the artifact; ``fate``: ``kept``: integers, scales and
    minimums bit for bit; ``re-expressed``: the same values in another form; ``rounded again``: other values, ``error``
    away relative to the norm of the checkpoint's; ``bytes``: what it takes in the checkpoint.
    """

    name: str
    found: str
    used: str
    fate: Fate
    error: float
    bytes: JsonCount
    reason: str = ""


def fates_in_words(matrices: Sequence[CheckpointMatrix]) -> str:
    """One line: how many matrices were kept and re-expressed, with their share of the bytes, and how many rounded."""
    kept, moved, again = (
        [matrix for matrix in matrices if matrix.fate == fate] for fate in ("kept", "re-expressed", "rounded again")
    )
    every = sum(matrix.bytes for matrix in matrices)
    parts = [
        f"{len(part)} of {len(matrices)} matrices {words}, {_share(part, every)} of their bytes"
        for part, words in ((kept, "kept bit for bit"), (moved, "re-expressed without loss"))
        if part
    ]
    if again:
        worst = max(matrix.error for matrix in again)
        parts.append(
            f"{len(again)}{'' if parts else f' of {len(matrices)} matrices'} rounded again (error up to {worst:.1%})"
        )
    return "; ".join(parts)


def _share(part: Sequence[CheckpointMatrix], every: int) -> str:
    return f"{100 * sum(matrix.bytes for matrix in part) / every:.0f} %"
