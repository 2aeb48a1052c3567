"""What an encoder-decoder's generation config does to logits before a token is chosen, in transformers' order.

Each rule masks logits with -inf: tokens that are never said or not said first, the token that must come first or last,
n-grams that must not come twice, the end of the text before its least length. Whisper's rules for timestamps come last
(section 4.5 of arXiv 2212.04356, and transformers' ``WhisperTimeStampLogitsProcessor``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgec.bundle.generation_config import KIND, GenerationConfig
from edgec.runtime_py.decoding.stepper import Logits


@dataclass(frozen=True)
class TimestampRules:
    """Timestamps come in pairs, never go back, and begin within the first ``latest_first`` steps of 20 ms.

    Attributes:
        first: the token of 0.00 s; all ids from it on are timestamps.
        no_timestamps: the token that asks for none, which is never said.
        eos: the end of a text.
        latest_first: steps up to the latest first timestamp, or None.
    """

    first: int
    no_timestamps: int
    eos: int
    latest_first: int | None = None

    def applied(self, logits: Logits, said: Sequence[int]) -> Logits:
        """The logits [vocabulary] of the next token after ``said``, the new tokens of this window so far."""
        out = logits.copy()
        out[self.no_timestamps] = -np.inf
        self._pair(out, said)
        self._advance(out, said)
        if not said:
            out[: self.first] = -np.inf
            if self.latest_first is not None:
                out[self.first + self.latest_first + 1 :] = -np.inf
        if _total(out[self.first :]) > out[: self.first].max():
            out[: self.first] = -np.inf
        return out

    def _pair(self, out: Logits, said: Sequence[int]) -> None:
        """After a closed pair, text; after an opening timestamp that closes a text, another one or the end."""
        last = bool(said) and said[-1] >= self.first
        before = len(said) < 2 or said[-2] >= self.first
        if last and before:
            out[self.first :] = -np.inf
        elif last:
            out[: self.eos] = -np.inf

    def _advance(self, out: Logits, said: Sequence[int]) -> None:
        """No timestamp before the last one; the same one again only to open the next text."""
        stamps = [token for token in said if token >= self.first]
        if stamps:
            opens = said[-1] >= self.first and not (len(said) < 2 or said[-2] >= self.first)
            out[self.first : stamps[-1] + (0 if opens else 1)] = -np.inf


def _total(logits: Logits) -> float:
    """log(sum(exp(logits))) in float64; -inf where all are -inf. A common shift of all logits does not matter."""
    highest = logits.max()
    return float(highest) if not np.isfinite(highest) else float(highest + np.log(np.exp(logits - highest).sum()))


@dataclass(frozen=True)
class TokenRules:
    """The rules of one text.

    Attributes:
        prompt: tokens that the decoder is given before the first new one.
        forced_first: the first new token, or None.
        forced_last: the token at position ``length - 1``, or None.
        length: tokens of prompt and text together, at most; None where nothing is forced at the end.
        never: tokens that are never said.
        not_first: tokens that are not said first.
        ngram: no n-gram of this size comes twice; 0: all may.
        eos: ids that end the text.
        least: tokens of prompt and text before which it does not end.
        timestamps: Whisper's rules, or None.
    """

    prompt: int = 1
    forced_first: int | None = None
    forced_last: int | None = None
    length: int | None = None
    never: tuple[int, ...] = ()
    not_first: tuple[int, ...] = ()
    ngram: int = 0
    eos: tuple[int, ...] = ()
    least: int = 0
    timestamps: TimestampRules | None = None

    @classmethod
    def of(cls, config: GenerationConfig, prompt: int, length: int | None) -> TokenRules:
        """The rules of a generation config, for a text of at most ``length`` tokens after ``prompt`` given ones."""
        bad = [words[0] for words in config.bad_words_ids or () if len(words) == 1]
        return cls(
            prompt=prompt,
            forced_first=config.forced_bos_token_id if prompt == 1 else None,
            forced_last=config.forced_eos_token_id,
            length=length,
            never=tuple(sorted({*bad, *(config.suppress_tokens or ())})),
            not_first=tuple(config.begin_suppress_tokens or ()),
            ngram=config.no_repeat_ngram_size or 0,
            eos=config.stop_tokens,
            least=config.min_length or 0,
        )

    def applied(self, logits: Logits, history: Sequence[int]) -> Logits:
        """The logits [vocabulary] of the next token after ``history``, which begins with the prompt.

        Raises:
            InputError: E141, a token that has to be said, or that of 0.00 s, is not in the vocabulary.
        """
        stamps = self.timestamps.first if self.timestamps else None
        require_known((self.forced_first, self.forced_last, stamps), logits.size)
        out = logits.copy()
        forbidden = [*self.never, *_completions(history, self.ngram)]
        forbidden += self.not_first if len(history) == self.prompt else ()
        forbidden += self.eos if len(history) < self.least else ()
        out[[token for token in forbidden if token < out.size]] = -np.inf
        if (forced := self._forced(len(history))) is not None:
            out[np.arange(out.size) != forced] = -np.inf
            out[forced] = 0.0
        return out if self.timestamps is None else self.timestamps.applied(out, history[self.prompt :])

    def _forced(self, count: int) -> int | None:
        if count == self.prompt and self.forced_first is not None:
            return self.forced_first
        return self.forced_last if self.length is not None and count == self.length - 1 else None


def require_known(tokens: Iterable[int | None], vocabulary: int) -> None:
    """Refuse tokens of a generation config that a model of so many does not have.

    Raises:
        InputError: E141.
    """
    if (highest := max((token for token in tokens if token is not None), default=0)) >= vocabulary:
        why = f"it names the token {highest}, and the model has {vocabulary}"
        raise KIND.refusal(Path("generation_config.json"), why)


def _completions(history: Sequence[int], size: int) -> list[int]:
    """The tokens that would make an n-gram of this size come again."""
    if size == 0 or len(history) < size:
        return []
    tail = list(history[len(history) - size + 1 :])
    starts = range(len(history) - size + 1)
    return [history[start + size - 1] for start in starts if list(history[start : start + size - 1]) == tail]
