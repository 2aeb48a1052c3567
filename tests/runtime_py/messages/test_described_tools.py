"""Tools for chat templates that have no place for them: where they are described, and how calls come and go."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from edgec.bundle.notations import GENERIC_CALLS
from edgec.bundle.tools import tools_of
from edgec.runtime_py.chat import Conversation
from edgec.runtime_py.messages.described_tools import plain_messages, tool_block, with_description
from edgec.runtime_py.messages.message_format import MessageFormat
from tests.runtime_py.messages.talk import NOW, TOOLS, speaker, talk, tokenizer

BLOCK = tool_block(tools_of(TOOLS))
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "days": 2}}\n</tool_call>'
NO_SYSTEM = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system messages') }}{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SILENT = NO_SYSTEM.replace("{{ raise_exception('no system messages') }}", "").replace(
    "<|{{ m.role }}|>{{ m.content }}</s>",
    "{% if m.role != 'system' %}<|{{ m.role }}|>{{ m.content }}</s>{% endif %}",
)


def with_template(template: str) -> Any:
    made = copy(tokenizer("nothing"))
    made.chat_template = template
    return made


def prompt_of(tokens: Any, messages: list[dict[str, Any]], tools: list[Any]) -> str:
    def structures() -> Any:
        raise AssertionError("no grammar is needed")

    return MessageFormat(tokens, structures).rendered(messages, Conversation.chat_options(tools))


@pytest.mark.long
@pytest.mark.parametrize("template", [None, NO_SYSTEM, SILENT])
def test_a_call_and_its_result_go_there_and_back(template: str | None) -> None:
    tokens = tokenizer("nothing") if template is None else with_template(template)
    stepper = speaker(tokens, f"Let me look.{CALL}", "It rains.")
    chat = talk(tokens, stepper)
    reply = chat.send("Rain?", tools=TOOLS)
    (call,) = reply.tool_calls
    assert (reply.text, call.name, call.arguments) == ("Let me look.", "weather", {"city": "Oslo", "days": 2})
    assert tokens.decode(stepper.cache.tokens).count(BLOCK) == 1
    chat.add_result(call, {"rain": True})
    assert chat.send(tools=TOOLS).text == "It rains."
    asked = tokens.decode(stepper.cache.tokens)
    assert CALL in asked and '<tool_response>\n{"rain": true}\n</tool_response>' in asked


def test_where_tools_are_described() -> None:
    tokens = tokenizer("nothing")
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}
    made = prompt_of(tokens, [system, user], TOOLS)
    assert made.index("<|system|>Be brief.") < made.index(BLOCK) < made.index("<|user|>Hi")
    assert prompt_of(tokens, [user], TOOLS).startswith("<|system|># Tools")
    kept = prompt_of(with_template(NO_SYSTEM), [system, user], TOOLS)
    assert kept.startswith("<|user|>Be brief.") and kept.index(BLOCK) < kept.index("Hi</s>")
    assert BLOCK not in prompt_of(tokens, [user], [])


def test_results_in_a_row_are_one_message_of_the_users() -> None:
    calls = [{"id": str(n), "type": "function", "function": {"name": "now", "arguments": {}}} for n in (1, 2)]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": calls, "reasoning_content": "Hm"},
        {"role": "tool", "content": "a", "tool_call_id": "1", "name": "now"},
        {"role": "tool", "content": "b", "tool_call_id": "2", "name": "now"},
        {"role": "user", "content": "And?"},
    ]
    made = plain_messages(messages, GENERIC_CALLS)
    assert [one["role"] for one in made] == ["user", "assistant", "user", "user"]
    assert made[1]["content"].count("<tool_call>") == 2 and made[1]["reasoning_content"] == "Hm"
    assert made[2]["content"] == "<tool_response>\na\n</tool_response>\n<tool_response>\nb\n</tool_response>"
    assert all(one.keys() <= {"role", "content", "reasoning_content"} for one in made)


def test_contents_of_parts_keep_their_images() -> None:
    parts = [{"type": "image"}, {"type": "text", "text": "What?"}]
    for role in ("system", "user"):
        made = with_description([{"role": "user", "content": parts}], tools_of([NOW]), GENERIC_CALLS, role)
        assert {"type": "image"} in made[-1]["content"] and made[-1]["content"][-1] == parts[-1]
        assert any("# Tools" in str(one["content"]) for one in made)


@pytest.mark.long
def test_a_required_call_is_held_to_its_schema() -> None:
    """The model says something else all the time: what the grammar leaves it is a call."""
    schema = {"type": "object", "properties": {"unit": {"enum": ["C", "F"]}}, "required": ["unit"]}
    tool = {"type": "function", "function": {"name": "weather", "parameters": schema}}
    tokens = tokenizer("nothing")
    chat = talk(tokens, speaker(tokens, "Once upon a time there was a dog who ran"))
    (call,) = chat.send("?", tools=[tool], tool_choice="required", max_new_tokens=300).tool_calls
    assert call.name == "weather" and call.arguments in ({"unit": "C"}, {"unit": "F"})
