"""What is taken as a tool, from dicts, functions and files; and transformers' own parser as the judge of reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.bundle.notations import CALL_FORMS
from edgec.bundle.tools import tools_in, tools_of
from edgec.errors import InputError
from edgec.runtime_py.messages.bodies.gemma_calls import GemmaCall
from edgec.runtime_py.messages.bodies.json_calls import JsonCall, JsonList, NamedJson
from edgec.runtime_py.messages.bodies.python_calls import PythonCalls
from edgec.runtime_py.messages.bodies.tagged_calls import TaggedCall
from edgec.runtime_py.messages.grammar import ToolChoice, message_grammar
from edgec.runtime_py.structured.engine import fault_of
from tests.example_counts import examples
from tests.runtime_py.messages.talk import NOW, WEATHER


def forecast(city: str, days: int = 3, unit: Literal["C", "F"] | None = None) -> str:
    """Say the weather.

    Args:
        city: a place.
        days: how many.
        unit: of temperatures.
    """
    return f"{city} {days} {unit}"


def test_a_function_is_described_by_its_hints() -> None:
    (tool,) = tools_of([forecast])
    assert tool.name == "forecast" and tool.parameters["required"] == ["city"]
    assert tool.parameters["properties"]["days"] == {"type": "integer", "description": "how many."}
    assert tool.parameters["additionalProperties"] is False
    assert {"type": "null"} in tool.parameters["properties"]["unit"]["anyOf"]
    assert tool.definition["function"]["description"] == "Say the weather."


def test_null_is_an_absent_value() -> None:
    function = {"name": "now", "description": None, "parameters": None, "strict": None}
    assert tools_of([{"type": None, "function": function}]) == tools_of([{"function": {"name": "now"}}])


def undescribed(city: str) -> str:
    """Say the weather."""
    return city


WRONG: dict[str, Any] = {
    "text": "weather",
    "number": [3],
    "no name": [{"type": "function", "function": {}}],
    "another type": [{"type": "retrieval"}],
    "a name with a quote": [{"function": {"name": 'a"b'}}],
    "a long name": [{"function": {"name": "a" * 65}}],
    "parameters of a list": [{"function": {"name": "a", "parameters": {"type": "array"}}}],
    "parameters of text": [{"function": {"name": "a", "parameters": "city"}}],
    "not JSON": [{"function": {"name": "a", "parameters": {"x": {1, 2}}}}],
    "undescribed": [undescribed],
    "a description of numbers": [{"function": {"name": "a", "description": 3}}],
    "many": [{"function": {"name": f"a{place}"}} for place in range(129)],
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_tool_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="E620"):
        tools_of(WRONG[name])


def test_equal_names_are_refused() -> None:
    with pytest.raises(InputError, match="E621"):
        tools_of([WEATHER, NOW, {"function": {"name": "weather"}}])


def test_schemas_that_cannot_be_enforced_are_refused_by_name() -> None:
    def form(name: str) -> Any:
        return next(form for form in CALL_FORMS if form.name == name)

    def tool(schema: Any) -> Any:
        return tools_of([{"function": {"name": "a", "parameters": {"properties": {"x": schema}}}}])

    for name, schema, keyword in (
        ("hermes", {"type": "array", "uniqueItems": True}, "uniqueItems"),
        ("lfm2", {"type": "array", "uniqueItems": True}, "uniqueItems"),
        ("gemma4", {"type": "string", "pattern": "a+"}, "pattern"),
        ("qwen-tags", {"type": "string", "maxLength": 3}, "maxLength"),
        ("gemma4", {"type": ["string", "null"]}, "type"),
    ):
        with pytest.raises(InputError, match=f"{keyword}.*E613") as caught:
            message_grammar(form(name), ToolChoice(tool(schema)), {})
        assert "tool a" in caught.value.where
    with pytest.raises(InputError, match="E620"):
        message_grammar(form("lfm2"), ToolChoice(tools_of([{"function": {"name": "a", "parameters": {"properties": {
            "not a name": {"type": "string"}}}}}])), {})  # fmt: skip


def test_every_grammar_is_one() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "object", "properties": {"c": {"type": "array", "items": {"type": "number"}}}},
            "d": {"anyOf": [{"type": "string", "enum": ["x", 'y"z']}, {"type": "null"}]},
            "e": {"type": "boolean"},
        },
        "required": ["b", "e"],
    }
    tools = tools_of([{"function": {"name": "a", "parameters": schema}}, NOW])
    for form in CALL_FORMS:
        for choice in (ToolChoice(tools), ToolChoice(tools[:1], required=True), ToolChoice(tools, parallel=False)):
            assert not fault_of(message_grammar(form, choice, {}).grammar), form.name


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([WEATHER]))
    assert tools_of(tools_in(file))[0].name == "weather"
    for text in ("{}", "[", '"a"'):
        file.write_text(text)
        with pytest.raises(InputError, match="E629"):
            tools_in(file)
    with pytest.raises(InputError, match="E629"):
        tools_in(tmp_path / "absent.json")


BODIES = [JsonCall(), JsonList(), NamedJson("[ARGS]"), PythonCalls(), GemmaCall('<|"|>'), TaggedCall()]
BROKEN = [
    *("", "{", "[]", "null", '{"name": 3}', '{"name": "a", "arguments": [1]}', "a(", "a(1)", "[a(b)]", "call:a{b:"),
    *("call:a{b:1}c", "<function=a>", "<function=a><parameter=b>1", "[" * 5000, "call:a{" * 3000, "-" * 9000),
    *("a(b=" + "(" * 3000, '{"name": "a", "arguments": {"b": NaN}}', "__import__('os').system(x='ls')()"),
]


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_no_call_is_never_read_as_one(text: str) -> None:
    for body in BODIES:
        with pytest.raises(ValueError):
            body.read(text)  # type: ignore[attr-defined]


NAMES = st.text("abcxyz_", min_size=1, max_size=4).filter(lambda name: name not in ("as", "__"))
PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="<>\x00"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9999, 9999) | st.floats(-9, 9) | PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(30), deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_what_is_written_is_read_and_transformers_agrees(arguments: dict[str, Any]) -> None:
    from transformers.cli.serving.utils import _RESPONSE_TEMPLATE_FALLBACKS
    from transformers.utils.chat_parsing import parse_response

    templates = {kind: held for kinds, held in _RESPONSE_TEMPLATE_FALLBACKS.items() for kind in kinds}
    hermes = json.dumps({"name": "f", "arguments": arguments}, ensure_ascii=False)
    (call,) = JsonCall().read(hermes)
    assert call.arguments == arguments
    judged = parse_response(f"<tool_call>\n{hermes}\n</tool_call>", templates["qwen3"], prefix="")
    assert judged["tool_calls"][0]["function"]["arguments"] == arguments
    gemma = f"call:f{_gemma(arguments)}"
    assert GemmaCall('<|"|>').read(gemma)[0].arguments == arguments
    words = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    assert PythonCalls().read(f"[f({words})]")[0].arguments == arguments
    texts = {key: value for key, value in arguments.items() if isinstance(value, str) and value == value.strip()}
    tags = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in texts.items())
    tagged = f"<function=f>\n{tags}</function>"
    assert TaggedCall().read(tagged)[0].arguments == texts
    other = parse_response(f"<tool_call>\n{tagged}\n</tool_call>", templates["qwen3_5"], prefix="")
    assert other["tool_calls"][0]["function"]["arguments"] == texts


def _gemma(value: Any) -> str:
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_gemma(each)}" for key, each in value.items()) + "}"
    return "[" + ",".join(map(_gemma, value)) + "]" if isinstance(value, list) else json.dumps(value)
