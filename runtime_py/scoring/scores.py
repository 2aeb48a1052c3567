"""How likely a decoder finds given texts after a prompt, for choices among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgec.bundle.encoding import token_ids
from edgec.errors import InputError
from edgec.runtime_py.answers.tokenized import Tokenized
from edgec.runtime_py.decoding.forced_text import continuation_score
from edgec.runtime_py.decoding.stepper import check_context
from edgec.runtime_py.sessions.session import Session, text_limits


@dataclass(frozen=True)
class Score:
    """How likely a continuation is.

    Attributes:
        text: the continuation.
        logprob: the sum of its tokens' log-probabilities, in nats, at most 0.
        tokens: how many it has; ``logprob / tokens`` compares continuations of different lengths.
        greedy: whether each token is the likeliest after those before it.
    """

    text: str
    logprob: float
    tokens: int
    greedy: bool


class Scoring(Tokenized):
    """A model that may be a decoder."""

    _loaded: object

    def score(self, prompt: str, continuations: Sequence[str]) -> list[Score]:
        """Score each continuation after the prompt; the prompt is computed once.

        Prompt and continuation become tokens separately, so a continuation begins with the space that it needs.

        Args:
            prompt: the text before, as it is.
            continuations: texts, each with at least one token.

        Raises:
            InputError: E150, a text exceeds the context; E151, the prompt or a continuation has no tokens; E152, E155.
        """
        text_limits(self.bundle)
        session = self._loaded
        assert isinstance(session, Session)
        asked = token_ids(self.tokenizer, prompt, enough=session.limits.context)
        read = [token_ids(self.tokenizer, text, special=False) for text in continuations]
        for what, tokens in [("The prompt", asked), *(("A continuation", tokens) for tokens in read)]:
            if not tokens:
                raise InputError(f"{what} has no tokens.", where="score", fix="give a text", code="E151")
        check_context(max((len(asked) + len(tokens) for tokens in read), default=0), session.limits.context)
        told = [continuation_score(session, asked, tokens) for tokens in read]
        return [
            Score(text, total, len(ids), top) for text, ids, (total, top) in zip(continuations, read, told, strict=True)
        ]
