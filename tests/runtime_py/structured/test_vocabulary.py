"""The bytes of tokens, from byte-level tokenizers and from those with byte fallback."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from edgec.errors import InputError
from edgec.runtime_py.structured.vocabulary import vocabulary_of
from tests.runtime_py.structured.steppers import example_tokenizer, fallback_tokenizer


@pytest.mark.parametrize("make", [example_tokenizer, fallback_tokenizer])
def test_the_bytes_of_a_text_are_those_of_its_tokens(make: Any) -> None:
    tokenizer = make()
    known = vocabulary_of(tokenizer, None, frozenset([tokenizer.eos_token_id]))
    text = 'the "name": {ä, €, 𝄞} true\n<|x|>'
    tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert b"".join(known.tokens[token] for token in tokens).decode() == text
    assert (
        known.spelled(text.encode())
        and b"".join(known.tokens[i] for i in known.spelled(text.encode())) == text.encode()
    )
    assert {known.ids[bytes([byte])] for byte in range(256)}.isdisjoint(known.special)


def test_added_tokens_are_text_unless_they_are_special() -> None:
    tokenizer = fallback_tokenizer()
    known = vocabulary_of(tokenizer, None, frozenset([2]))
    tool = tokenizer.convert_tokens_to_ids("<tool>")
    assert known.tokens[tool] == b"<tool>" and tool not in known.special
    assert {0, 1, 2} <= known.special and known.eos == {2}


def test_ids_beyond_the_model_are_left_out() -> None:
    assert len(vocabulary_of(example_tokenizer(), 300, frozenset()).tokens) == 300
    assert vocabulary_of(example_tokenizer(), 300, frozenset([299, 900])).eos == {299}


def words() -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer, decoders, models

    tokenizer = Tokenizer(models.WordPiece(vocab={"a": 0, "##b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")


def lower() -> PreTrainedTokenizerFast:
    """Its decoder writes something else than its tokens say."""
    from tokenizers import Tokenizer, decoders, models

    tokenizer = Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Replace("a", "x")])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


@pytest.mark.parametrize("tokenizer", [words(), lower(), object()])
def test_other_tokenizers_are_refused(tokenizer: Any) -> None:
    with pytest.raises(InputError, match="E617"):
        vocabulary_of(tokenizer, None, frozenset())
