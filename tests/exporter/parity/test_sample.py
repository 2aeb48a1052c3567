"""A short text of the float model and of the artifact, from the same words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from torch import Tensor, nn

from edgec.exporter.parity.sample import artifact_text, greedy, model_text, sample_start

VOCABULARY = 50


class Tokenizer:
    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [1] * add_special_tokens + [ord(letter) % VOCABULARY for letter in text[:4]]}


class Counting(nn.Module):
    """A model that says the number after the last token."""

    def forward(self, input_ids: Tensor, use_cache: bool = False) -> Any:
        return SimpleNamespace(logits=_next(input_ids)[None])


def _next(ids: Tensor) -> Tensor:
    return nn.functional.one_hot((ids[0] + 1) % VOCABULARY, VOCABULARY).float()


def test_both_go_on_from_their_own_tokens() -> None:
    calls: list[tuple[list[int], int]] = []

    def step(ids: Tensor, positions: Tensor, rows: Tensor) -> Tensor:
        calls.append((ids[0].tolist(), int(positions[0])))
        return _next(ids)[rows][None]

    assert model_text(Counting(), (3, 7), context=6) == (8, 9, 10, 11)
    assert artifact_text(step, (3, 7), context=6) == (8, 9, 10, 11)
    assert calls == [([3, 7], 0), ([8], 2), ([9], 3), ([10], 4)], "the start is read in one call, then single tokens"


def test_a_text_is_32_tokens_at_most_and_none_without_a_start() -> None:
    assert len(model_text(Counting(), (3,), context=512)) == 32
    assert model_text(Counting(), (), context=512) == ()


def test_logits_behind_each_token_are_given() -> None:
    tokens, rows = greedy(lambda ids, positions, chosen: _next(ids)[chosen][None], [4], 3)
    assert tokens == [5, 6, 7] and [int(row.argmax()) for row in rows] == tokens


@pytest.mark.parametrize(
    ("changed", "tokens"),
    [({}, 5), ({"tokenizer": None}, 0), ({"parameters": 10**9}, 0), ({"room": 4}, 0), ({"vocab_size": 20}, 0)],
    ids=["as it is", "no tokenizer", "large", "no room", "ids beyond the vocabulary"],
)
def test_a_start_needs_a_tokenizer_room_and_a_small_model(changed: dict[str, Any], tokens: int) -> None:
    given = {"tokenizer": Tokenizer(), "vocab_size": VOCABULARY, "parameters": 10**6, "room": 64, **changed}
    assert len(sample_start(**given)) == tokens
