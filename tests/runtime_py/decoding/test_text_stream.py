from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

from edgec.runtime_py.decoding.text_stream import TextStream
from tests.runtime_py.tiny_decoder import tiny_tokenizer

BYTE_LEVEL = tiny_tokenizer()
TEXTS = st.text(max_size=40).filter(lambda text: "<" not in text and "\N{REPLACEMENT CHARACTER}" not in text)


def decode(ids: list[int]) -> str:
    result: str = BYTE_LEVEL.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return result


def sentencepiece() -> PreTrainedTokenizerFast:
    """Llama-2's form: a space is part of the next token, unknown characters are bytes, a leading space is stripped."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "▁a", "b", "▁ab", "▁b"]
    tokenizer = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, [], byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS)
def test_pieces_join_to_the_text_and_never_hold_a_broken_character(prompt: str, text: str) -> None:
    stream = TextStream(decode, BYTE_LEVEL(prompt)["input_ids"])
    pieces = [stream.push(token) for token in BYTE_LEVEL(text, add_special_tokens=False)["input_ids"]]
    assert "".join(pieces) + stream.flush() == text
    assert "\N{REPLACEMENT CHARACTER}" not in "".join(pieces)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, len(BYTE_LEVEL) - 1), max_size=40))
def test_random_tokens_join_to_what_the_tokenizer_says(tokens: list[int]) -> None:
    stream = TextStream(decode)
    assert "".join(stream.push(token) for token in tokens) + stream.flush() == decode(tokens)


def test_a_character_of_four_bytes_appears_whole() -> None:
    stream = TextStream(decode)
    pieces = [stream.push(token) for token in BYTE_LEVEL("🦊", add_special_tokens=False)["input_ids"]]
    assert pieces == ["", "", "", "🦊"]


@pytest.mark.parametrize(("prompt", "expected"), [(["<s>", "▁a"], " ab"), (["<s>"], "ab")])
def test_the_space_of_sentencepiece_is_kept_inside_a_text_and_stripped_at_its_start(
    prompt: list[str], expected: str
) -> None:
    tokenizer = sentencepiece()
    stream = TextStream(
        lambda ids: tokenizer.decode(ids, skip_special_tokens=True), tokenizer.convert_tokens_to_ids(prompt)
    )
    assert stream.push(tokenizer.convert_tokens_to_ids("▁ab")) == expected


def test_byte_fallback_waits_for_the_last_byte() -> None:
    tokenizer = sentencepiece()
    stream = TextStream(lambda ids: tokenizer.decode(ids, skip_special_tokens=True), [1])
    names = [f"<0x{byte:02X}>" for byte in "é".encode()]
    assert [stream.push(token) for token in tokenizer.convert_tokens_to_ids([*names, "▁b"])] == ["", "é", " b"]


@pytest.mark.parametrize("prompt", ["", "今天天气", "b 今天"])
def test_a_long_run_of_bytes_stays_text(prompt: str) -> None:
    """More byte tokens than are kept: what is forgotten ends between two characters, not inside one."""
    tokenizer = sentencepiece()
    stream = TextStream(lambda ids: tokenizer.decode(ids, skip_special_tokens=True), tokenizer(prompt)["input_ids"])
    names = [f"<0x{byte:02X}>" for byte in "天气很好👩🏽 今天".encode()]
    pieces = [stream.push(token) for token in tokenizer.convert_tokens_to_ids(names)]
    assert "".join(pieces).strip() == "天气很好👩🏽 今天" and "\N{REPLACEMENT CHARACTER}" not in "".join(pieces)


class WholePrompt(TextStream):
    """Begins with the whole prompt instead of its end."""

    def _end_of(self, prompt: Sequence[int]) -> list[int]:
        return list(prompt)


SENTENCEPIECE = sentencepiece()
DECODES: dict[str, Callable[[list[int]], str]] = {
    "byte level": decode,
    "sentencepiece": lambda ids: str(SENTENCEPIECE.decode(ids, skip_special_tokens=True)),
}


@pytest.mark.long
@pytest.mark.parametrize(("name", "vocabulary"), [("byte level", len(BYTE_LEVEL)), ("sentencepiece", 264)])
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_the_end_of_a_prompt_gives_the_same_text_as_the_whole(name: str, vocabulary: int, data: st.DataObject) -> None:
    """Long prompts of random tokens, most of which decode to broken characters, and of valid text."""
    ids = st.lists(st.integers(0, vocabulary - 1), max_size=120)
    written = st.text(alphabet="ab 今天气很好👩🏽", max_size=60).map(
        lambda text: list((SENTENCEPIECE if name == "sentencepiece" else BYTE_LEVEL)(text)["input_ids"])
    )
    prompt, tokens = data.draw(ids | written), data.draw(ids)
    streams = TextStream(DECODES[name], prompt), WholePrompt(DECODES[name], prompt)
    assert [streams[0].push(t) for t in tokens] == [streams[1].push(t) for t in tokens]
    assert streams[0].flush() == streams[1].flush()


def test_a_long_prompt_is_not_decoded_as_a_whole() -> None:
    lengths: list[int] = []

    def counted(ids: list[int]) -> str:
        lengths.append(len(ids))
        return decode(ids)

    TextStream(counted, BYTE_LEVEL("Once upon a time there was a little girl. " * 100)["input_ids"])
    assert max(lengths) <= 24
