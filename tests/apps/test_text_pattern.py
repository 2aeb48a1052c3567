"""Patterns over classes of characters match what Oniguruma matches in the text itself."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from edgec.apps.embed.character_classes import Atom, Partition, members, partition
from edgec.apps.embed.text_pattern import UnknownPattern, atoms, render, translated
from edgec.apps.embed.tokenizer_steps import GPT2
from tests.apps.tokenizer_samples import CL100K, DEEPSEEK, HARD, LLAMA3, O200K, QWEN

PATTERNS = {
    "gpt2": GPT2,
    "llama3": LLAMA3,
    "qwen": QWEN,
    "cl100k": CL100K,
    "o200k": O200K,
    "deepseek": DEEPSEEK,
    "lines": r"^.+$|(?<=\d)\D{2,3}|(?<!x)y|[^[:punct:]\p{^Lu}]\u0061|\x{1F469}|\h\H?|\W\w*?",
    "starcoder": r"\d|[\t ]+(?=[^\n])|(?:\\n|/)+|[&]{2}",
}


@cache
def _made(name: str) -> tuple[str, Partition]:
    parts = translated(PATTERNS[name])
    classes = partition(atoms(parts))
    return render(parts, classes), classes


def _symbol(classes: Partition, character: str) -> str:
    entries = [entry for entry in classes.table.split(",") if int(entry[:-1], 16) <= ord(character)]
    return entries[-1][-1]


def _pieces(name: str, text: str) -> list[str]:
    """The pieces into which Python's engine cuts the text, over the symbols."""
    expression, classes = _made(name)
    symbols = "".join(_symbol(classes, character) for character in text)
    cuts = {0, len(text)}
    for match in re.finditer(expression.replace(r"\z", r"\Z"), symbols):
        cuts |= {match.start(), match.end()}
    places = sorted(cuts)
    return [text[start:end] for start, end in pairwise(places)]


@pytest.mark.slow
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_over_classes_cuts_as_the_library_does(name: str) -> None:
    split = pre_tokenizers.Split(Regex(PATTERNS[name]), "isolated")
    for text in HARD:
        assert _pieces(name, text) == [piece for piece, _ in split.pre_tokenize_str(text)], text


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(PATTERNS)), st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_text_is_cut_as_the_library_does(name: str, text: str) -> None:
    split = pre_tokenizers.Split(Regex(PATTERNS[name]), "isolated")
    assert _pieces(name, text) == [piece for piece, _ in split.pre_tokenize_str(text)]


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?i:straße)",
        r"(?i:st)",
        r"(?i:[^a])",
        r"(?i:\p{L})",
        r"(?i)a",
        r"(a)\1",
        r"\bword",
        r"\Gx",
        r"(?<name>a)",
        r"(?>a)",
        r"[a-z&&[^b]]",
        r"a{2,3}+",
        r"a{2}?",
        r"a**",
        r"a)",
        r"(a",
        r"[a",
        "a\\",
    ],
)
def test_what_classes_cannot_say_is_refused(pattern: str) -> None:
    with pytest.raises(UnknownPattern):
        translated(pattern)


def test_characters_of_planes_without_any_are_refused() -> None:
    with pytest.raises(ValueError, match="planes"):
        members(Atom("regex", r"[\x{50000}-\x{50010}]"))
    with pytest.raises(ValueError):
        members(Atom("regex", r"\p{NoSuchClass}"))


def test_classes_are_the_librarys_own() -> None:
    """White space has 25 characters in Unicode, and a letter in any case those that fold to it."""
    assert members(Atom("regex", r"\s")).sum() == 25 == members(Atom("space")).sum()
    expected = partition([Atom("folded", "s"), *(Atom("character", each) for each in "sSſ")])
    assert set(expected.symbols[Atom("folded", "s")]) == {expected.symbols[Atom("character", each)] for each in "sSſ"}
