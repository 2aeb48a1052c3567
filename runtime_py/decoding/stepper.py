"""The protocol that generation needs of a model: logits for some rows of some tokens at some position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.entry_points import Limits
from edgec.errors import InputError

Logits = NDArray[np.float32]


class Stepper(Protocol):
    """A decoder with a KV cache: a Session, a device, or a fake in a test."""

    @property
    def limits(self) -> Limits:
        """The context, tokens per call and rows of logits per call."""

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        """Feed ``tokens`` at positions ``start``.. and return float32 logits [len(rows), vocabulary] of those rows."""

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        """Feed any number of tokens chunk by chunk and return the last one's logits, float32 [vocabulary]."""

    def reusable(self, tokens: Sequence[int]) -> int:
        """How many leading ``tokens`` the KV cache holds and can continue from; fewer than all of them."""


def prefill_in_chunks(stepper: Stepper, tokens: Sequence[int], start: int) -> Logits:
    """Implement ``Stepper.prefill`` by calls of ``forward``.

    Raises:
        InputError: E150 before anything is executed when the tokens do not fit, E151 when there are none.
    """
    if not tokens:
        raise InputError("There are no tokens to feed.", where="prompt", fix="give a prompt", code="E151")
    check_context(start + len(tokens), stepper.limits.context)
    step = stepper.limits.prefill_chunk
    for offset in range(0, len(tokens), step):
        chunk = tokens[offset : offset + step]
        logits = stepper.forward(chunk, start + offset, (len(chunk) - 1,))
    result: Logits = logits[0]
    return result


def check_context(end: int, context: int) -> None:
    """Refuse positions beyond the context.

    Raises:
        InputError: E150.
    """
    if end > context:
        raise InputError(
            f"The tokens do not fit into the context of {context}.",
            where="prompt",
            why=f"there are {end} or more, and the KV cache of the artifact has a fixed number of positions",
            fix=f"shorten the prompt to {context} tokens; only a model made for more can have a longer --context",
            code="E150",
        )
