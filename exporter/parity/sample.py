"""A short text by the float model and by the artifact, from the same words, for a reader of the report.

Each says its likeliest token again and again. Up to the first token that differs both read the same text; after it each
reads its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.encoding import token_ids
from edgec.exporter.parity.execution import run_eager
from edgec.ir.call_plan import Call, DecoderStep

START = "Once upon a time"
_TOKENS = 32
# The float model writes without a cache, since not every family has one: 32 passes, a few per cent of such an export.
_MOST_PARAMETERS = 200_000_000


@dataclass(frozen=True)
class Sample:
    """Token ids: of the words that both start from, and of what each says after them."""

    start: tuple[int, ...]
    float_tokens: tuple[int, ...]
    bundle_tokens: tuple[int, ...]


def sample_start(tokenizer: Any, vocab_size: int, parameters: int, room: int) -> tuple[int, ...]:
    """The tokens of `START`; empty where there is no tokenizer, no room for them in a call, or the model is large."""
    if tokenizer is None or parameters > _MOST_PARAMETERS:
        return ()
    start = token_ids(tokenizer, START)
    return tuple(start) if 0 < len(start) <= room and max(start) < vocab_size else ()


def model_text(model: torch.nn.Module, start: Sequence[int], context: int) -> tuple[int, ...]:
    """What transformers' own model says after ``start``; nothing where ``start`` is empty."""
    tokens = list(start)
    for _ in range(_length(start, context)):
        logits = run_eager(model, tokens, (Call(0, len(tokens), 1),))
        tokens.append(int(logits[-1].argmax()))
    return tuple(tokens[len(start) :])


def artifact_text(step: DecoderStep, start: Sequence[int], context: int) -> tuple[int, ...]:
    """What an artifact says after ``start``."""
    return tuple(greedy(step, start, _length(start, context))[0])


def _length(start: Sequence[int], context: int) -> int:
    return min(_TOKENS, context - len(start)) if start else 0


def greedy(
    step: DecoderStep, prompt: Sequence[int], count: int, chunk: int = 0, ends: Sequence[int] = ()
) -> tuple[list[int], list[Tensor]]:
    """The likeliest tokens after a prompt, and the logits [V] that chose each.

    Args:
        step: one call.
        prompt: token ids.
        count: the most tokens.
        chunk: how many tokens of the prompt a call reads; all where it is 0.
        ends: ids after which nothing is written.
    """
    rows: list[Tensor] = []
    tokens, fed = list(prompt), 0
    while len(rows) < count and not (rows and tokens[-1] in ends):
        new = tokens[fed : fed + chunk] if chunk else tokens[fed:]
        logits = step(torch.tensor([new]), torch.arange(fed, fed + len(new)), torch.tensor([len(new) - 1]))[0, 0]
        fed += len(new)
        if fed == len(tokens):
            rows.append(logits.clone())
            tokens.append(int(logits.argmax()))
    return tokens[len(prompt) :], rows
