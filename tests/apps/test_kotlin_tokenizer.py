"""The app's own tokenizer, compiled and run: ids and texts are those of the ``tokenizers`` library."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.apps.kotlin_compiler import WITH_KOTLIN
from tests.apps.kotlin_tokenizers import KotlinTokenizers
from tests.apps.tokenizer_samples import CORPUS, HARD, SAMPLES, sample
from tests.example_counts import examples

pytestmark = [pytest.mark.slow, WITH_KOTLIN]


@pytest.fixture(scope="module")
def kotlin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KotlinTokenizers]:
    running = KotlinTokenizers(list(SAMPLES), tmp_path_factory.mktemp("kotlin"))
    yield running
    running.close()


def _assert_same(kotlin: KotlinTokenizers, name: str, text: str) -> None:
    library = sample(name)
    ids = library.encode(text).ids
    assert kotlin.ask(name, text=text, special=True) == ids, text
    assert kotlin.ask(name, text=text) == library.encode(text, add_special_tokens=False).ids, text
    assert kotlin.ask(name, ids=ids) == library.decode(ids), text


@pytest.mark.parametrize("name", SAMPLES)
def test_hard_texts(kotlin: KotlinTokenizers, name: str) -> None:
    for text in HARD:
        _assert_same(kotlin, name, text)


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_text(kotlin: KotlinTokenizers, name: str, data: st.DataObject) -> None:
    words = [*CORPUS, *(token for token in sample(name).get_vocab()), " ", "\n", "'s", "12", "▁", "👩"]
    drawn = st.lists(st.sampled_from(words) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=8)
    _assert_same(kotlin, name, "".join(data.draw(drawn)))


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_ids_decode(kotlin: KotlinTokenizers, name: str, data: st.DataObject) -> None:
    """Broken bytes, special tokens in the middle, ids that the vocabulary lacks."""
    size = sample(name).get_vocab_size()
    ids = data.draw(st.lists(st.integers(0, size + 3), max_size=12))
    if name == "clip" and not sample(name).decode([i for i in ids if i < size]):
        return  # the library's BPEDecoder panics without tokens
    assert kotlin.ask(name, ids=ids) == sample(name).decode(ids)


@pytest.mark.parametrize("name", ["example", "gpt2", "llama2", "gemma", "unigram_bytes"])
def test_a_stream_shows_the_whole_text(kotlin: KotlinTokenizers, name: str) -> None:
    """Token by token, nothing incomplete, and together what the library decodes at once."""
    for text in HARD:
        ids = sample(name).encode(text, add_special_tokens=False).ids
        shown = kotlin.ask(name, ids=ids, stream=True)
        assert "".join(shown).lstrip() == sample(name).decode(ids).lstrip(), text
        assert not [piece for piece in shown[:-1] if piece.endswith("\ufffd")], text


@pytest.mark.parametrize("name", ["gpt2", "llama3", "llama2", "unigram"])
def test_long_texts(kotlin: KotlinTokenizers, name: str) -> None:
    """100,000 characters, for llama2 in one word: quadratic time would not end here."""
    draws = random.Random(1)
    text = " ".join(draws.choice(" ".join(CORPUS).split(" ")) for _ in range(20_000))[:100_000]
    _assert_same(kotlin, name, text)
    _assert_same(kotlin, name, "ab" * 50_000)


def test_halves_of_characters_are_replaced(kotlin: KotlinTokenizers) -> None:
    """The library accepts no text with them, but an app's text field can give one."""
    assert kotlin.ask("gpt2", text="a\ud83d!") == sample("gpt2").encode("a\ufffd!").ids
