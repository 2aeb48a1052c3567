"""What templates write between messages, with tools and without: taken apart where an app can join it, else refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import pytest

from edgec.apps.embed.prompt_pieces import PromptPieces, prompt_pieces
from edgec.bundle.notations import CALL_FORMS, CallForm
from edgec.bundle.tools import tools_of
from tests.runtime_py.messages.talk import NOW, WEATHER

TOOLS = [tool.definition for tool in tools_of([WEATHER, NOW])]
FORMS = {form.name: form for form in CALL_FORMS}
# Tools in the system message or in one of their own, results of one turn in one message of the user.
CHATML = """
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% else %}<|im_start|>system
Be helpful.<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == 'user' or m.role == 'assistant' and not m.tool_calls %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% elif m.role == 'assistant' %}<|im_start|>assistant
{{ m.content }}{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% elif m.role == 'tool' %}
{%- if loop.previtem.role != 'tool' %}<|im_start|>user{% endif %}
<tool_response>
{{ m.content }}
</tool_response>{% if loop.last or loop.nextitem.role != 'tool' %}<|im_end|>
{% endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
# Tools in the first message of the user, contents trimmed, results quoted.
LLAMA = """<|begin|>
{%- set held = namespace(tools=tools) %}
{%- for m in messages %}
{%- if m.role == 'tool' %}<|h|>ipython<|/h|>

{{ m.content | tojson }}<|eot|>
{%- elif m.tool_calls %}<|h|>assistant<|/h|>

{"name": "{{ m.tool_calls[0].function.name }}", "parameters": {{ m.tool_calls[0].function.arguments | tojson }}}<|eot|>
{%- else %}<|h|>{{ m.role }}<|/h|>

{% if m.role == 'user' and held.tools %}Functions: {{ held.tools | tojson }}

{% set held.tools = none %}{% endif %}{{ m.content | trim }}<|eot|>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|h|>assistant<|/h|>

{% endif %}"""
# No system message, the tool's name before each result, a header before the opening marker.
NAMED = """{% for m in messages %}
{%- if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}
{%- if m.role == 'tool' %}<|start|>functions.{{ m.name }} to=assistant<|message|>{{ m.content }}<|end|>
{%- elif m.tool_calls %}<|start|>assistant to=functions.{{ m.tool_calls[0].function.name }}
{{- '<|channel|>commentary json<|message|>' }}
{{- m.tool_calls[0].function.arguments | tojson }}<|call|>
{%- else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|start|>assistant{% endif %}"""
TEMPLATES = [(CHATML, "hermes"), (LLAMA, "llama3"), (NAMED, "harmony")]
# The tools before the last message of the user, whichever that is.
LAST_USER = (
    "{% set last = messages | selectattr('role', 'equalto', 'user') | list | last %}{% for m in messages %}"
    "{% if tools and m is sameas last %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif %}"
    "[{{ m.role }}]{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.arguments | tojson }}</tool_call>"
    "{% endfor %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)
WITH_IDS = CHATML.replace("<tool_response>\n", "<tool_response>{{ m.tool_call_id }}\n")


def _render(template: str, tools: Sequence[Any], messages: Sequence[Mapping[str, Any]], answer: bool) -> str:
    environment = jinja2.Environment(keep_trailing_newline=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    compiled = environment.from_string(template, globals={"raise_exception": refuse})
    return compiled.render(messages=messages, tools=tools or None, add_generation_prompt=answer)


def _pieces(template: str, form: CallForm | None) -> PromptPieces | None:
    tools = TOOLS if form else []
    return prompt_pieces(lambda messages, answer: _render(template, tools, messages, answer), form)


def _call(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefghi", "function": function}]}


@pytest.mark.parametrize(("template", "name"), TEMPLATES, ids=[name for _, name in TEMPLATES])
def test_conversations_with_tools_come_out_as_the_template_has_them(template: str, name: str) -> None:
    pieces = _pieces(template, FORMS[name])
    assert pieces is not None
    arguments = {"city": "Oslo \u00e9", "days": 3}
    written = json.dumps(arguments, ensure_ascii=False)
    said = {
        "hermes": f'<tool_call>\n{{"name": "weather", "arguments": {written}}}\n</tool_call>',
        "llama3": f'{{"name": "weather", "parameters": {written}}}',
        "harmony": f" to=functions.weather<|channel|>commentary json<|message|>{written}",
    }[name]
    result = {"role": "tool", "content": '{"rain": "a \\ b"}', "name": "weather", "tool_call_id": "abcdefghi"}
    talk: list[dict[str, Any]] = [{"role": "user", "content": " Coat?\n"}, _call("weather", arguments), result, result]
    told: list[tuple[str, str]] = [("user", " Coat?\n"), ("call", said), *[("tool", str(result["content"]))] * 2]
    assert pieces.render(told, "weather") == _render(template, TOOLS, talk, True)
    talk += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And now?"}]
    told += [("assistant", "Yes."), ("user", "And now?")]
    assert pieces.render(told, "weather") == _render(template, TOOLS, talk, True)
    if name != "harmony":
        system = {"role": "system", "content": "Be brief."}
        assert pieces.render([("system", "Be brief."), *told], "weather") == _render(
            template, TOOLS, [system, *talk], True
        )
    assert json.dumps("city") in "".join(pieces.joins.values()) or name == "harmony"


@pytest.mark.parametrize(("template", "name"), TEMPLATES, ids=[name for _, name in TEMPLATES])
def test_without_tools_there_are_the_plain_kinds(template: str, name: str) -> None:
    pieces = _pieces(template, None)
    assert pieces is not None and not pieces.quoted
    kinds = {kind for pair in pieces.joins for kind in pair}
    assert kinds == {"start", "user", "assistant", "answer"} | ({"system"} if name != "harmony" else set())
    assert pieces.trimmed == (frozenset({"user", "assistant", "system"}) if name == "llama3" else frozenset())


@pytest.mark.long
def test_results_are_quoted_where_the_template_quotes_them() -> None:
    quoted = {name: made.quoted for template, name in TEMPLATES if (made := _pieces(template, FORMS[name]))}
    assert quoted == {"hermes": False, "llama3": True, "harmony": False}


@pytest.mark.parametrize("template", [LAST_USER, WITH_IDS, "{{ messages[-1].content }}", "", "{{ no.such.field }}"])
def test_other_templates_have_no_pieces(template: str) -> None:
    assert _pieces(template, FORMS["hermes"]) is None
