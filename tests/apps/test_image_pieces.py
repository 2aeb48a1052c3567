"""What templates write around images, taken apart: in every message, in the first one alone, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import pytest

from edgec.apps.embed.prompt_pieces import PromptPieces, Talk, prompt_pieces
from edgec.apps.embed.reply_facts import in_parts

# Parts in their order; white space after the colon unless an image comes first, and no contents but lists.
ORDERED = """<s>{% for m in messages %}{{ m.role.capitalize() }}:
{{- '' if m.content[0].type == 'image' else ' ' }}
{%- for part in m.content %}{{ '<image>' if part.type == 'image' else part.text }}{% endfor %}<end>
{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"""
# All images of a message before its texts, with a line break after each.
SORTED = """{% for m in messages %}{{ m.role.upper() }}: {% for part in m.content if part.type == 'image' %}<image>
{% endfor %}{% for part in m.content if part.type == 'text' %}{{ part.text }} {% endfor %}{% endfor %}
{%- if add_generation_prompt %}ASSISTANT:{% endif %}"""
# A system message where none is given, marks around each image.
MARKED = """{% for m in messages %}{% if loop.first and m.role != 'system' %}<|start|>system
Be helpful.<|end|>
{% endif %}<|start|>{{ m.role }}
{% for part in m.content %}{{ '<|eye|><image><|/eye|>' if part.type == 'image' else part.text }}{% endfor %}<|end|>
{% endfor %}{% if add_generation_prompt %}<|start|>assistant
{% endif %}"""
# The system message inside the first of the user, roles that take turns, contents without outer white space.
TURNS = """{% set first = '' %}{% if messages[0].role == 'system' %}
{%- set first = messages[0].content[0].text + '\n\n' %}
{%- set messages = messages[1:] %}{% endif %}{% for m in messages %}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('take turns') }}{% endif %}<turn>{{ m.role }}
{{ first if loop.first }}{% for part in m.content %}
{{- '<image>' if part.type == 'image' else part.text | trim }}{% endfor %}</turn>
{% endfor %}{% if add_generation_prompt %}<turn>model
{% endif %}"""
EVERYWHERE = [ORDERED, SORTED, MARKED, TURNS]
# Only the first message shows its images.
FIRST = """{% for m in messages %}{{ m.role }}: {% set show = loop.first %}{% for part in m.content %}
{{- part.text if part.type == 'text' else '<image>' if show else 'an image' }}{% endfor %}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"""
NUMBERED = """{% set seen = namespace(n=0) %}{% for m in messages %}{{ m.role }}: {% for part in m.content %}
{%- if part.type == 'image' %}{% set seen.n = seen.n + 1 %}Picture {{ seen.n }}: <image>
{%- else %}{{ part.text }}{% endif %}{% endfor %}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"""
TALKS: Sequence[Talk] = (
    [("image", "<image>"), ("user", "What is this? ")],
    [("image", "<image>"), ("image", "<image>"), ("image", "<image>"), ("user", " Compare ")],
    [("user", "Hi"), ("assistant", "Hello"), ("image", "<image>"), ("user", "And this?")],
    [("image", "<image>"), ("user", "a"), ("assistant", "b\n"), ("user", "c"), ("assistant", "d"), ("user", "e")],
)


def _refuse(why: str) -> str:
    raise ValueError(why)


def rendered(template: str, messages: Sequence[Mapping[str, Any]], answer: bool = True) -> str:
    """A conversation with images as messages of their own, as the template writes it."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = _refuse
    given = {"messages": in_parts(messages), "add_generation_prompt": answer}
    return environment.from_string(template).render(given)


def pieces_of(template: str) -> PromptPieces:
    pieces = prompt_pieces(lambda messages, answer: rendered(template, messages, answer), image="<image>")
    assert pieces is not None
    return pieces


def as_messages(talk: Talk) -> list[dict[str, str]]:
    return [{"role": kind, "content": content} for kind, content in talk]


@pytest.mark.parametrize("template", EVERYWHERE)
def test_images_stand_in_any_message_as_the_template_has_them(template: str) -> None:
    pieces = pieces_of(template)
    for talk in TALKS:
        assert pieces.render(talk) == rendered(template, as_messages(talk))
    with_system = [("system", "Be brief."), *TALKS[0]]
    assert pieces.render(with_system) == rendered(template, as_messages(with_system))


def test_a_template_may_show_images_in_the_first_message_alone() -> None:
    pieces = pieces_of(FIRST)
    for talk in (*TALKS[:2], TALKS[3][:2]):
        assert pieces.render(talk) == rendered(FIRST, as_messages(talk))
    assert ("assistant", "image") not in pieces.joins and ("start", "image") in pieces.joins


def test_images_that_are_numbered_have_no_pieces_but_texts_have() -> None:
    pieces = pieces_of(NUMBERED)
    assert not [pair for pair in pieces.joins if "image" in pair] and ("user", "assistant") in pieces.joins


def test_images_become_parts_of_the_message_behind_them() -> None:
    made = in_parts(as_messages(TALKS[2]))
    assert [len(message["content"]) for message in made] == [1, 1, 2]
    assert made[2] == {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "And this?"}]}
