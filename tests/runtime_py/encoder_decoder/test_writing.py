"""Text after a source, piece by piece: checked at once, read when the first piece is asked for."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import pytest

from edgec.bundle.generation_config import GenerationConfig
from edgec.errors import InputError
from edgec.runtime_py.answers.streams import Stream
from edgec.runtime_py.decoding.stepper import Logits
from edgec.runtime_py.encoder_decoder.token_rules import TokenRules
from edgec.runtime_py.encoder_decoder.writing import pieces_after
from edgec.runtime_py.generation.generate import Generation, GenerationRequest
from tests.runtime_py.fake_stepper import FakeStepper, sums

CONFIG = GenerationConfig(decoder_start_token_id=1)
MOST = 8


class FakeSession(FakeStepper):
    """A decoder that says what the source's sum makes of its own tokens."""

    def __init__(self) -> None:
        super().__init__(lambda tokens: sums([*self.source, *tokens]))
        self.source: list[int] = []
        self.rules = TokenRules()

    def check_source(self, source: Any) -> None:
        if source.shape[-1] > MOST:
            raise InputError("too long", code="E150")

    def read(self, source: Any) -> None:
        self.source = source[0].tolist()

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        return self.rules.applied(super().prefill(tokens, start), self.cache.tokens)


def letters(tokens: list[int]) -> str:
    return "".join(chr(ord("A") + token % 26) for token in tokens)


def begun(session: Any, source: list[int], first: int | None = None) -> Generator[str, None, Generation]:
    return pieces_after(session, source, GenerationRequest(6), CONFIG, letters, first=first)


def test_nothing_is_read_before_the_first_piece() -> None:
    session = FakeSession()
    made = Stream(begun(session, [4, 5]))
    assert session.source == [] and session.calls == []
    assert len("".join(made)) == 6
    assert made.result is not None and (made.result.prompt_tokens, session.source) == (2, [4, 5])


def test_the_first_token_is_that_of_the_language() -> None:
    made = Stream(begun(FakeSession(), [4, 5], first=9))
    assert "".join(made)[0] == letters([9]) and made.result is not None and made.result.tokens[0] == 9


def test_a_text_that_was_left_has_no_part_in_the_next() -> None:
    session = FakeSession()
    with Stream(begun(session, [7], first=9)) as made:
        next(made)
    assert "".join(begun(session, [4, 5])) == "".join(begun(FakeSession(), [4, 5]))


@pytest.mark.parametrize(("source", "code"), [([], "E151"), ([3] * (MOST + 1), "E150")])
def test_wrong_sources_are_refused_at_once(source: list[int], code: str) -> None:
    session = FakeSession()
    with pytest.raises(InputError) as refused:
        begun(session, source)
    assert refused.value.code == code and session.rules == TokenRules()
