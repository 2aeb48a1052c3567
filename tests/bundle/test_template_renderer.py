"""The renderer of chat templates writes what transformers' own writes, and refuses what that refuses."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from jinja2 import TemplateError
from transformers.utils.chat_template_utils import render_jinja_template

from edgec.bundle.template_renderer import render
from tests.runtime_py.messages.talk import TOOLS

LANGUAGE = (Path(__file__).parents[1] / "apps" / "language.jinja").read_text()
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Bonn", "days": 2}}}
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief & kind."},
    {"role": "user", "content": "Hello <b>you</b>, 'all' of \"you\"!\n"},
    {"role": "assistant", "content": "", "reasoning": "It is about the weather.", "tool_calls": [CALL]},
    {"role": "tool", "content": "[1, 2]"},
    {"role": "assistant", "content": "It rains.", "reasoning_content": "Two days."},
    {"role": "user", "content": "Thanks."},
]
TEMPLATES = {
    "language": LANGUAGE,
    "json": "{{ tools|tojson(indent=2) }}{{ messages|tojson(sort_keys=true, separators=(',', ':')) }}",
    "reasoning": "{% for m in messages %}{{ m.thinking }}/{{ m.reasoning_content }}/{{ m.reasoning }};{% endfor %}",
    "blocks": "{%- if tools %}\n  {% for t in tools %}\n{{ t.function.name }}\n  {% endfor %}\n{% endif %}\n",
    "generation": "{% for m in messages %}{% generation %}{% set x = m.role %}{{ x }}{% endgeneration %}{{ x }}"
    "{% endfor %}",
    "names": "{% set n = namespace(self=1, a=[]) %}{% set n.a = n.a + [n.self] %}{{ n.a }}{{ dict(a=1, **{'b': 2}) }}",
    "keys": "{{ dict.fromkeys(['a', 'b'], 1) }}{{ documents is none }}{{ answer is defined }}{{ given }}",
    "answer": "{% if add_generation_prompt %}<answer>{% else %}<end>{% endif %}",
}
REFUSED = {
    "it says so": "{{ raise_exception('no system message') }}",
    "private names": "{% set n = namespace() %}{% set n._x = 1 %}",
    "private keywords": "{{ namespace(__class__=1) }}",
    "attributes of Python": "{{ messages.__class__.__mro__ }}{{ ''.__class__.__base__.__subclasses__() }}",
    "a changed list": "{% set _ = messages.append({}) %}",
    "a damaged text": "{% for m in messages %}",
}


def rendered(template: str, answer: bool) -> str:
    return render(
        template,
        TALK,
        TOOLS,
        answer=answer,
        variables={"given": 3},
        write_time=lambda form: datetime.now().strftime(form),
    )


def theirs(template: str, answer: bool) -> str:
    copied = json.loads(json.dumps(TALK))
    texts, _ = render_jinja_template(
        conversations=[copied], tools=TOOLS, chat_template=template, add_generation_prompt=answer, given=3
    )
    return str(texts[0])


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("name", TEMPLATES)
def test_the_text_is_that_of_transformers(name: str, answer: bool) -> None:
    before = theirs(TEMPLATES[name], answer)
    # A template may write the minute: one of the two is in the same.
    assert rendered(TEMPLATES[name], answer) in (before, theirs(TEMPLATES[name], answer))


@pytest.mark.parametrize("name", REFUSED)
def test_what_transformers_refuses_is_refused_with_the_same_kind_of_error(name: str) -> None:
    with pytest.raises(Exception) as wanted:
        theirs(REFUSED[name], True)
    with pytest.raises(TemplateError) as caught:
        rendered(REFUSED[name], True)
    assert type(caught.value) is type(wanted.value)


def test_the_clock_is_the_one_that_is_given() -> None:
    text = render("{{ strftime_now('%d') }}", [], None, answer=True, variables={}, write_time=lambda form: f"<{form}>")
    assert text == "<%d>"
    assert render("{{ strftime_now.func }}", [], None, answer=True, variables={}, write_time=str) == ""
