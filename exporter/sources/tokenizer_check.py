"""The tokenizer belongs to the model: every id it can produce has an embedding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.bundle.golden import TextVector
from edgec.errors import InputError


@dataclass(frozen=True)
class RoundTrips:
    """How many texts come back unchanged; ``changed`` are the labels of the others."""

    texts: int
    changed: tuple[str, ...]

    def __str__(self) -> str:
        same = self.texts - len(self.changed)
        return f"{same} of {self.texts} texts come back" + (
            f"; changed: {', '.join(self.changed)}" if self.changed else ""
        )


def round_trips(vectors: Sequence[TextVector]) -> RoundTrips:
    """The round-trip report over token vectors; a lossy tokenizer is a fact to know, not an error."""
    return RoundTrips(len(vectors), tuple(vector.label for vector in vectors if not vector.round_trip))


def check_tokenizer(tokenizer: Any, vocab_size: int, where: str) -> None:
    """Refuse a tokenizer that cannot be this model's. A larger (padded) embedding is fine.

    Args:
        tokenizer: of transformers.
        vocab_size: rows of the model's embedding.
        where: the model, for the message.

    Raises:
        InputError: E140.
    """
    fault = next(_faults(tokenizer, vocab_size), None)
    if fault is not None:
        raise InputError(
            "The tokenizer does not match the model.",
            where=where,
            why=fault,
            fix="use the tokenizer the model was trained with, or resize the embedding to the tokenizer first",
            code="E140",
        )


def _faults(tokenizer: Any, vocab_size: int) -> Iterator[str]:
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    if not vocabulary:
        yield "its vocabulary is empty"
        return
    token, highest = max(vocabulary.items(), key=lambda item: item[1])
    if highest >= vocab_size:
        yield f"it can produce id {highest} ({token!r}), and the embedding has {vocab_size} rows"
    for number in sorted(tokenizer.all_special_ids):
        if not 0 <= number < vocab_size:
            yield f"its special token {tokenizer.convert_ids_to_tokens(number)!r} has id {number}"
