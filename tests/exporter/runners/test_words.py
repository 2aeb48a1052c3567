"""Pieces of another runtime beside tokens and logits of edgec's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.decoders import Decoder, WordPiece
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from edgec.exporter.runners.words import Agreement, OwnText, agreement, text_agreement

WORDS = ("a", "b", "c", "d", "</s>", "\ufffd")
END, PART = 4, 5


class Letters:
    """Every token is a letter."""

    def decode(self, tokens: Sequence[int], **_: Any) -> str:
        return "".join(WORDS[token] for token in tokens)


def own(tokens: Sequence[int], second: float = -9.0) -> OwnText:
    """A text whose tokens have the logit 0, the one after each (of the letters) ``second``, all others -9."""
    rows = [torch.full((6,), -9.0) for _ in tokens]
    for row, token in zip(rows, tokens, strict=True):
        row[(token + 1) % 4], row[token] = second, 0.0
    return OwnText(tokens, rows)


@pytest.mark.parametrize(
    ("text", "pieces", "found"),
    [
        pytest.param(own([0, 1, 2]), ["a", "b", "c"], Agreement(3), id="equal"),
        pytest.param(own([0, 1, 2]), ["a", "b"], Agreement(2), id="cut in a character"),
        pytest.param(own([0, 1, END]), ["a", "b", ""], Agreement(3), id="an end that is not written"),
        pytest.param(own([0, 1, 2]), ["a", "c", "d"], Agreement(2, faults=1), id="another word"),
        pytest.param(own([0, 1, 2], second=-0.4), ["a", "c", "d"], Agreement(1, near_tie=True), id="a near tie"),
        pytest.param(own([0, 1, 2], second=-0.4), ["a", "d", "d"], Agreement(2, faults=1), id="none of the two"),
        pytest.param(own([0, 1, END]), ["a", "b", "</s>", "a"], Agreement(4, faults=1), id="beyond the end"),
    ],
)
def test_a_text_is_compared_up_to_a_difference(text: OwnText, pieces: Sequence[str], found: Agreement) -> None:
    assert agreement(Letters(), text, pieces, (END,), epsilon=0.5) == found


@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        pytest.param(own([0, 1, 2]), " abc", Agreement(3), id="equal"),
        pytest.param(own([0, 1, PART]), "ab\ufffd", Agreement(3), id="ends in a part of a character"),
        pytest.param(own([0, 1, PART]), "ab", Agreement(3), id="ends in a part that is not shown"),
        pytest.param(own([0, 1, END]), "ab", Agreement(3), id="an end"),
        pytest.param(own([0, 1, 2]), "acd", Agreement(2, faults=1), id="another word"),
        pytest.param(own([0, 1, 2], second=-0.4), "acd", Agreement(1, near_tie=True), id="a near tie"),
        pytest.param(own([0, 1, 2], second=-0.4), "add", Agreement(2, faults=1), id="none of the two"),
        pytest.param(own([0, 1, 2]), "ab", Agreement(3, faults=1), id="a word too few"),
        pytest.param(own([0, 1, 2]), "abca", Agreement(4, faults=1), id="a word too many"),
        pytest.param(own([0, 1, 2]), "", Agreement(1, faults=1), id="nothing"),
    ],
)
def test_a_whole_text_is_compared_up_to_a_difference(text: OwnText, said: str, found: Agreement) -> None:
    assert text_agreement(Letters(), text, said, (END,), epsilon=0.5) == found


def _words(decoder: Decoder | None) -> PreTrainedTokenizerFast:
    backend = Tokenizer(WordLevel({word: place for place, word in enumerate(WORDS)}, WORDS[END]))
    if decoder is not None:
        backend.decoder = decoder
    return PreTrainedTokenizerFast(tokenizer_object=backend)


@pytest.mark.parametrize("decoder", [None, WordPiece()], ids=["no decoder", "spaces between tokens"])
def test_words_that_a_runtime_writes_without_spaces_are_no_fault(decoder: Decoder | None) -> None:
    tokenizer = _words(decoder)
    assert tokenizer.decode([0, 1, 2]) == "a b c"
    assert agreement(tokenizer, own([0, 1, 2]), ["a", "b", "c"], (), 0.5) == Agreement(3, unspaced=True)
    assert agreement(tokenizer, own([0, 1, 2]), ["a", "c", "d"], (), 0.5) == Agreement(2, faults=1, unspaced=True)


def test_spaces_count_where_a_runtime_writes_them() -> None:
    assert agreement(_words(WordPiece()), own([0, 1, 2]), ["a", " b", " c"], (), 0.5) == Agreement(3)
    assert agreement(_words(WordPiece()), own([0, 1, 2]), ["a", " b", "c"], (), 0.5) == Agreement(3, faults=1)
