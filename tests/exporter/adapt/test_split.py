"""A text in two parts: whatever its form, both have something, and neither has anything of the other."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path

import pytest

from edgec.exporter.adapt.batches import tokenize
from edgec.exporter.adapt.split import CHUNK_BYTES, HELD_OUT_EVERY, split
from edgec.exporter.adapt.texts import read_texts
from tests.runtime_py.tiny_decoder import tiny_tokenizer


@lru_cache
def sentences(count: int) -> tuple[str, ...]:
    """Sentences of five to thirty words, each with a number of its own."""
    chance = random.Random(1)
    return tuple(
        f"Number {place} said "
        + " ".join(chance.choices(("river", "stone", "a", "house", "never"), k=chance.randint(5, 30)))
        for place in range(count)
    )


def as_wikitext(count: int) -> str:
    """As WikiText-2's raw files: a space on every empty line, a paragraph on each of the others."""
    lines = [". ".join(sentences(count)[place : place + 8]) for place in range(0, count, 8)]
    return " \n = Title = \n \n " + " . \n ".join(lines) + " . \n"


FORMS = {
    "paragraphs": ".\n\n".join(sentences(6000)),
    "wikitext": as_wikitext(6000),
    "lines": "\n".join(sentences(6000)),
    "one line of sentences": ". ".join(sentences(6000)),
    "words without an end": " ".join(sentences(6000)),
    "no spaces": "".join("".join(sentences(6000)).split()),
    "sentences without spaces": "".join(f"第{place}天我们去学校。" for place in range(20_000)),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_long_text_of_any_form_gives_both_parts(name: str) -> None:
    text = FORMS[name]
    train, held_out = split(text)
    share = sum(map(len, held_out)) / len(text)
    assert 0.5 / HELD_OUT_EVERY < share < 2 / HELD_OUT_EVERY
    assert all(CHUNK_BYTES - 2 <= len(passage.encode()) <= 3 * CHUNK_BYTES for passage in held_out)
    assert split(text) == (train, held_out)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("length", [400, 3000, 10_000, 100_000, 10**6])
def test_no_character_is_in_both_parts_and_only_white_space_in_none(name: str, length: int) -> None:
    text = FORMS[name][:length]
    train, held_out = split(text)
    assert train and held_out
    place = 0
    for passage in sorted((*train, *held_out), key=text.index):
        begin = text.index(passage, place)
        assert not text[place:begin].strip()
        place = begin + len(passage)
    assert not text[place:].strip()


@pytest.mark.parametrize(("name", "ends"), [("wikitext", "."), ("lines", ""), ("one line of sentences", ".")])
def test_passages_end_where_a_reader_would_pause(name: str, ends: str) -> None:
    text = FORMS[name]
    for passage in split(text)[1]:
        after = text[text.index(passage) + len(passage) :][:2]
        assert passage.rstrip().endswith(ends) and after[:1].isspace()
        assert "\n" in after or name == "one line of sentences"


def test_a_paragraph_among_short_ones_is_kept_whole_up_to_two_chunks() -> None:
    long, short = " ".join("word" for _ in range(1600)), "short paragraph " * 20
    train, held_out = split("\n\n".join([short] * 300 + [long] + [short] * 300))
    assert any(long in passage for passage in (*train, *held_out))
    words = " ".join(f"word{place}" for place in range(5000))
    train, held_out = split("\n\n".join([words, short]))
    assert held_out and words not in train[0]


def test_what_is_left_over_at_the_end_is_no_held_out_text_of_its_own() -> None:
    paragraph = "y" * CHUNK_BYTES
    train, held_out = split("\n\n".join([paragraph, paragraph, "the end"]))
    assert train == [paragraph] and held_out == [f"{paragraph}\n\nthe end"]


def test_a_tenth_of_a_text_of_few_chunks_is_held_out() -> None:
    _, held_out = split("\n\n".join(f"{place:02d}" + "z" * CHUNK_BYTES for place in range(40)))
    assert [passage[:2] for passage in held_out] == ["36", "37", "38", "39"]


def test_a_single_word_is_not_divided() -> None:
    assert split("word") == (["word"], []) and split(" \n ") == ([], [])


@pytest.mark.long
def test_wikitext_is_tokens_to_train_on_and_tokens_held_out(tmp_path: Path) -> None:
    file = tmp_path / "wiki.train.raw"
    file.write_text(as_wikitext(6000))
    batches = tokenize(read_texts([file]), tiny_tokenizer(), 256, 8192, seed=0)
    # two chunks of 4 KiB are held out; the tiny tokenizer has about a token for each byte
    assert len(batches.train) > 500_000 and 25 <= len(batches.held_out) <= 32
