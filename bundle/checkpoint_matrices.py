"""What became of the matrices that a quantised checkpoint stores as integers, for the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from edgec.bundle.part import JsonCount, JsonPart

Fate = Literal["kept", "re-expressed", "rounded again"]
_WORDS = {"kept": "kept bit for bit", "re-expressed": "re-expressed without loss", "rounded again": "rounded again"}


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


class FateShare(JsonPart):
    """The matrices with one fate: how many, what they take in the checkpoint and in the artifact, scales included.

    ``share`` (0..1): of the bytes of all matrices that the checkpoint stores as integers.
    """

    fate: Fate
    matrices: JsonCount
    bytes: JsonCount
    share: float
    artifact_bytes: JsonCount = 0


def fate_shares(matrices: Sequence[CheckpointMatrix]) -> list[FateShare]:
    """What became of how much of a checkpoint; fates that no matrix has are left out, and bytes in an artifact 0."""
    every, shares = sum(matrix.bytes for matrix in matrices), []
    for fate in get_args(Fate):
        part = [matrix.bytes for matrix in matrices if matrix.fate == fate]
        if part:
            shares.append(FateShare(fate=fate, matrices=len(part), bytes=sum(part), share=sum(part) / every))
    return shares


def fates_in_words(matrices: Sequence[CheckpointMatrix]) -> str:
    """One line: how many matrices were kept, re-expressed and rounded again, each with its share of the bytes."""
    parts: list[str] = []
    for one in fate_shares(matrices):
        counted = f"{one.matrices} of {len(matrices)} matrices" if not parts else f"{one.matrices}"
        parts.append(f"{counted} {_WORDS[one.fate]}, {100 * one.share:.0f} % of their bytes")
    again = [matrix.error for matrix in matrices if matrix.fate == "rounded again"]
    return "; ".join(parts) + (f" (error up to {max(again):.1%})" if again else "")
