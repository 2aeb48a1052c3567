"""What a model's own texts begin with: its start, and its chat template with a few built-in questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from edgec.bundle.chat_template import render_messages
from edgec.bundle.encoding import token_ids
from edgec.errors import EdgecError

PROMPTS = tuple((Path(__file__).parent / "prompts.txt").read_text().splitlines())
ANSWER = 48
"""Tokens that a model writes after a question."""
# One step of a batch of 16 or 32 reads the same weights as a step of one: wide batches are cheap, long texts are not.
_CHATS, _CHAT_TOKENS, _LONGEST = 16, 1984, 512
_ALONE, _BESIDE = (32, 65), (32, 33)


@dataclass(frozen=True)
class WritingBatch:
    """Texts that are written together.

    Attributes:
        starts: the tokens that each begins with, fewer than ``length`` of them.
        length: tokens of each text.
    """

    starts: tuple[tuple[int, ...], ...]
    length: int


def chat_batch(tokenizer: Any, vocab_size: int, context: int) -> WritingBatch | None:
    """Questions as the chat template writes them; None without a template, or where they leave no room.

    Raises:
        EdgecError: the template refuses them or exceeds its limits.
    """
    if not getattr(tokenizer, "chat_template", None):
        return None
    asked = [_question(tokenizer, prompt) for prompt in PROMPTS]
    length = min(max(map(len, asked)) + ANSWER, context, _LONGEST)
    usable = [start for start in asked if 0 < len(start) < length and max(start) < vocab_size]
    texts = max(1, min(_CHATS, _CHAT_TOKENS // length))
    return WritingBatch(tuple(islice(cycle(usable), texts)), length) if usable else None


def start_batch(tokenizer: Any, config: Mapping[str, Any], context: int, *, beside: bool) -> WritingBatch:
    """The model's start, as often as there are to be texts; shorter ones ``beside`` those of a chat."""
    texts, length = _BESIDE if beside else _ALONE
    return WritingBatch(((_first_token(tokenizer, config),),) * texts, min(length, context))


def batches(
    tokenizer: Any, config: Mapping[str, Any], vocab_size: int, context: int
) -> tuple[Sequence[WritingBatch], str]:
    """What a model is to write, and a notice where its chat template failed."""
    notice, chat = "", None
    try:
        chat = chat_batch(tokenizer, vocab_size, context)
    except EdgecError as error:
        notice = f"plain text alone, since the chat template failed: {error.why or error.what}"
    return [*([chat] if chat else []), start_batch(tokenizer, config, context, beside=chat is not None)], notice


def _question(tokenizer: Any, prompt: str) -> tuple[int, ...]:
    text = render_messages(tokenizer, [{"role": "user", "content": prompt}])
    return tuple(token_ids(tokenizer, text, special=False))


def _first_token(tokenizer: Any, config: Mapping[str, Any]) -> int:
    """What every text of the model begins with; else the token that ends texts, after which another begins."""
    leading = token_ids(tokenizer, "")[:1] if tokenizer is not None else []
    named = (config.get(key) for key in ("bos_token_id", "eos_token_id"))
    known = (value[0] if isinstance(value, list) and value else value for value in (*leading, *named))
    size = int(config["vocab_size"])
    return next((token for token in known if isinstance(token, int) and 0 <= token < size), 0)
