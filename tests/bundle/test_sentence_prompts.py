"""The prompts of a sentence encoder: which is meant, and what a manifest may say about them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from edgec.bundle.sentence_prompts import NO_PROMPTS, SentencePrompts
from edgec.errors import InputError

PROMPTS = SentencePrompts(prompts={"query": "q: ", "document": ""}, default_prompt="query", unpooled={"query": 3})


def test_the_default_stands_for_none_and_an_empty_name_for_no_prompt() -> None:
    assert PROMPTS.named(None) == PROMPTS.named("query") == ("q: ", 3)
    assert PROMPTS.named("") == PROMPTS.named("document") == ("", 0)
    assert NO_PROMPTS.named(None) == NO_PROMPTS.named("query") == ("", 0)


def test_prompts_are_told_in_a_line() -> None:
    assert str(PROMPTS) == "query 'q: '; before every text: query"
    assert str(PROMPTS.model_copy(update={"default_prompt": None})) == "query 'q: '"


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="E126") as raised:
        PROMPTS.named("passage")
    assert "query, document" in raised.value.why


@pytest.mark.parametrize(
    "fields",
    [
        {"prompts": {"a": "b"}, "default_prompt": "query"},
        {"prompts": {"a": "b"}, "unpooled": {"c": 1}},
        {"prompts": {"a": "b"}, "unpooled": {"a": -1}},
        {"prompts": {"a" * 300: "b"}},
        {"prompts": {"a": "b"}, "other": 1},
    ],
)
def test_a_manifest_is_held_to_its_form(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SentencePrompts.model_validate(fields)
