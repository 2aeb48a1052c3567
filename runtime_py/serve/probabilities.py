"""The probabilities of chosen tokens and of their alternatives, as OpenAI's protocol tells them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.bundle.encoding import decode_tokens
from edgec.runtime_py.structured.rule import Vector


@dataclass(frozen=True)
class Likely:
    """A token with its log probability, nats, by the model alone: before sampling's options and masks."""

    token: int
    logprob: float


@dataclass(frozen=True)
class ChosenToken:
    """A token that was chosen, and the likeliest ones at its place."""

    one: Likely
    likeliest: tuple[Likely, ...]


def rate_token(logits: Vector, token: int, most: int, rated: Sequence[int] = ()) -> ChosenToken:
    """What ``logits`` [vocabulary] say of a token, and of the ``most`` likeliest or else of those ``rated``."""
    wide = logits.astype(np.float64)
    peak = wide.max()
    total = peak + np.log(np.exp(wide - peak).sum())
    best = rated or np.argsort(-wide, kind="stable")[:most]
    return ChosenToken(
        Likely(token, float(wide[token] - total)), tuple(Likely(int(each), float(wide[each] - total)) for each in best)
    )


class TokenTexts:
    """What single tokens write."""

    def __init__(self, tokenizer: Any, written: Callable[[], tuple[bytes, ...]]) -> None:
        """Read tokens of a tokenizer; ``written`` gives the bytes of each id, or raises where nobody knows them."""
        self._tokenizer = tokenizer
        try:
            self._written = written()
        except Exception:  # a tokenizer without bytes of its tokens: its texts must do
            self._written = ()

    def text(self, token: int) -> str:
        """The text of a token, special ones by name."""
        return decode_tokens(self._tokenizer, [token], special=True)

    def raw(self, token: int) -> list[int]:
        """The bytes of a token."""
        known = self._written[token] if token < len(self._written) else b""
        return list(known or self.text(token).encode())

    def for_chat(self, chosen: ChosenToken) -> dict[str, Any]:
        """One entry of ``logprobs.content``."""
        return {**self._entry(chosen.one), "top_logprobs": [self._entry(each) for each in chosen.likeliest]}

    def _entry(self, one: Likely) -> dict[str, Any]:
        return {"token": self.text(one.token), "logprob": one.logprob, "bytes": self.raw(one.token)}

    def for_text(self, chosen: list[ChosenToken], offset: int) -> dict[str, Any]:
        """The object ``logprobs`` of a plain text, whose first token begins ``offset`` characters in."""
        texts = [self.text(each.one.token) for each in chosen]
        offsets = [offset + sum(map(len, texts[:place])) for place in range(len(texts))]
        return {
            "tokens": texts,
            "token_logprobs": [each.one.logprob for each in chosen],
            "top_logprobs": [{self.text(one.token): one.logprob for one in each.likeliest} for each in chosen],
            "text_offset": offsets,
        }
