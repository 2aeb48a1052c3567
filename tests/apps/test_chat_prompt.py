"""Conversations in Android apps: in pieces only where these write what the template writes, and otherwise whole."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.apps.embed.chat_prompt import ChatPrompt, chat_values, renderings
from edgec.apps.embed.prompt_dates import can_be_written, filled
from edgec.apps.embed.prompt_pieces import PromptPieces, text_pieces
from edgec.apps.embed.template_program import template_program
from edgec.bundle.chat_template import render_messages
from edgec.bundle.golden_texts import CONTENTS, GOLDEN_DAY, SHAPES, chat_vectors, conversations
from edgec.errors import InputError
from tests.apps.chat_templates import DATED, PIECES, TEMPLATES
from tests.example_counts import examples
from tests.runtime_py.tiny_decoder import tiny_tokenizer

Talk = Sequence[tuple[str, str]]
NUMBERED = "{% for m in messages %}[{{ loop.index }}] {{ m.content }}\n{% endfor %}"
LAST_ONLY = "{{ messages[-1].content }}"
UPPER = "{% for m in messages %}{{ m.content | upper }}{% endfor %}"


def tokenizer(template: str) -> object:
    made = tiny_tokenizer()
    made.chat_template = template
    return made


@cache
def pieces_of(template: str) -> PromptPieces | None:
    return text_pieces(*renderings(tokenizer(template)))


def rendered(template: str, talk: Talk) -> str | None:
    """What the template writes on a day; None where it refuses."""
    messages = [{"role": role, "content": content} for role, content in talk]
    try:
        return render_messages(tokenizer(template), messages, clock=GOLDEN_DAY)
    except InputError:
        return None


def joined(pieces: PromptPieces, talk: Talk) -> str | None:
    """What the pieces write; None where they refuse."""
    try:
        return filled(pieces.render(talk))
    except KeyError:
        return None


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_family_is_in_pieces_where_the_whole_matrix_is_and_can_always_be_rendered_whole(name: str) -> None:
    assert (pieces_of(TEMPLATES[name]) is not None) == (name in PIECES)
    assert template_program(TEMPLATES[name], {}) is not None


@pytest.mark.parametrize("name", sorted(PIECES))
def test_pieces_write_every_conversation_of_the_matrix(name: str) -> None:
    pieces, template = pieces_of(TEMPLATES[name]), TEMPLATES[name]
    assert pieces is not None
    written = 0
    for label, messages in conversations():
        talk = [(message["role"], message["content"]) for message in messages]
        assert joined(pieces, talk) == rendered(template, talk), label
        written += joined(pieces, talk) is not None
    assert written >= len(CONTENTS) * 4


ROLES = st.sampled_from(["system", "user", "assistant", "tool"])
TEXTS = st.sampled_from([text for texts in CONTENTS.values() for text in texts]) | st.text(max_size=8)


@pytest.mark.parametrize("name", sorted(PIECES))
@settings(max_examples=examples(40), deadline=None)
@given(talk=st.lists(st.tuples(ROLES, TEXTS), min_size=1, max_size=7))
def test_pieces_never_write_anything_else_than_the_template(name: str, talk: Talk) -> None:
    """Of any conversation: the template's text, or a refusal."""
    pieces = pieces_of(TEMPLATES[name])
    assert pieces is not None
    assert joined(pieces, talk) in (None, rendered(TEMPLATES[name], talk))


def test_a_default_system_message_takes_nothing_from_the_question() -> None:
    pieces = pieces_of(TEMPLATES["smollm2"])
    assert pieces is not None
    system = "<|im_start|>system\nBe brief.<|im_end|>\n"
    question, answer = "<|im_start|>user\none<|im_end|>\n", "<|im_start|>assistant\n"
    assert pieces.render([("system", "Be brief."), ("user", "one")]) == system + question + answer
    assert pieces.render([("system", ""), ("user", "one")]).startswith("<|im_start|>system\n<|im_end|>\n")
    assert pieces.render([("user", "one")] * 2).endswith(question * 2 + answer)
    first = pieces.render([("assistant", "two"), ("user", "one")])
    assert first.endswith("<|im_start|>assistant\ntwo<|im_end|>\n" + question + answer) and "SmolLM" in first


@pytest.mark.parametrize("name", sorted(DATED))
def test_dates_are_those_of_the_day_of_the_prompt(name: str) -> None:
    vectors = [vector for vector in chat_vectors(tokenizer(TEMPLATES[name])) if vector.dated]
    assert vectors and all("2026" in vector.rendered and vector.clock == GOLDEN_DAY for vector in vectors)
    pieces = pieces_of(TEMPLATES[name])
    if pieces is not None:
        assert "05 Jan 2026" in filled(pieces.render([("user", "x")]))
        assert "26 Dec 2027" in filled(pieces.render([("user", "x")]), "2027-12-26T00:00:00")


def test_dates_that_an_app_cannot_write_are_refused() -> None:
    week = "{{ strftime_now('%d %U') }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    assert pieces_of(week) is None and template_program(week, {}) is None
    computed = week.replace("'%d %U'", "messages[0].content")
    assert template_program(computed, {}) is None
    assert can_be_written("a \ue013%d %-m %B\ue014 b \ue013%H:%M%%\ue014") and not can_be_written("\ue013%G\ue014")


@pytest.mark.parametrize("template", [NUMBERED, LAST_ONLY, UPPER])
def test_what_is_not_made_of_pieces_is_rendered_whole(template: str) -> None:
    assert pieces_of(template) is None and template_program(template, {}) is not None


@pytest.mark.parametrize(
    "template",
    [
        "{% include 'x' %}",
        "{{ x | attr('y') }}",
        "{{ messages[0].content.encode() }}",
        "{{ joiner() }}",
        "{% for m in messages recursive %}{{ loop(m) }}{% endfor %}",
        "{{ f(*messages) }}",
        "{% set x | upper %}a{% endset %}{{ x }}",
        "{% call f() %}{% endcall %}",
        "{{ " + "-" * 300 + "1 }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ unfinished",
    ],
)
def test_a_template_with_what_an_app_does_not_know_has_no_program(template: str) -> None:
    assert template_program(template, {}) is None
    assert chat_values(ChatPrompt(None, template_program(template, {})))["known"] is False


def test_every_shape_and_every_kind_of_contents_is_in_the_matrix() -> None:
    labels = [label for label, _ in conversations()]
    assert len(set(labels)) == len(labels) == len(SHAPES) * len(CONTENTS)
