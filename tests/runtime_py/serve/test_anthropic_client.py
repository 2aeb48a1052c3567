"""Anthropic's own client against the server: messages, streams, thinking, tools, errors."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.anthropic_body import AnthropicBody, chat_of_blocks
from edgec.runtime_py.serve.problems import RequestError
from tests.runtime_py.serve.running import ASK, CALL, NAME, Running, model_of, running, script

TOOL: Any = {"name": "now", "description": "The time.", "input_schema": {"type": "object", "properties": {}}}


def client_of(server: Running, key: str = "none") -> anthropic.Anthropic:
    url = server.url.removesuffix("/v1")
    return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=60)


def test_a_message_is_the_chat(server: Running) -> None:
    chat = server.client().chat.completions.create(model=NAME, messages=ASK, temperature=0, max_tokens=12)
    asked: Any = {"extra_body": {"temperature": 0}, "max_tokens": 12}
    made = client_of(server).messages.create(model=NAME, messages=ASK, **asked)
    assert made.content[0].type == "text" and made.content[0].text == chat.choices[0].message.content
    assert made.stop_reason == "max_tokens" and chat.usage is not None
    read = made.usage.input_tokens + (made.usage.cache_read_input_tokens or 0)
    assert (read, made.usage.output_tokens) == (chat.usage.prompt_tokens, 12)


def test_events_add_up_to_the_message(server: Running, model: Model) -> None:
    script(model, f"<think>Clock</think>\nIt is{CALL}")
    asked: Any = {"model": NAME, "messages": ASK, "extra_body": {"temperature": 0}, "max_tokens": 100, "tools": [TOOL]}
    with client_of(server).messages.stream(**asked) as stream:
        texts = list(stream.text_stream)
        final = stream.get_final_message()
    assert [block.type for block in final.content] == ["thinking", "text", "tool_use"]
    assert "".join(texts) == "It is" and final.stop_reason == "tool_use"
    use = final.content[2]
    assert use.type == "tool_use" and (use.name, use.input) == ("now", {})
    assert final.usage.output_tokens > 0


def test_a_tool_is_called_and_answered(server: Running, model: Model) -> None:
    client = client_of(server)
    script(model, CALL, "Noon")
    asked: Any = {"model": NAME, "extra_body": {"temperature": 0}, "max_tokens": 100, "tools": [TOOL]}
    first = client.messages.create(messages=ASK, **asked)
    use = first.content[0]
    assert use.type == "tool_use" and first.stop_reason == "tool_use"
    result: Any = {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "12:00"}]}
    said: Any = [*ASK, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    made = client.messages.create(messages=said, **asked)
    assert made.content[0].type == "text" and made.content[0].text == "Noon" and made.stop_reason == "end_turn"


def test_the_stop_sequence_is_named(server: Running, model: Model) -> None:
    script(model, "One. Two; Three")
    asked: Any = {"messages": ASK, "extra_body": {"temperature": 0}, "max_tokens": 40, "stop_sequences": ["?", "; "]}
    made = client_of(server).messages.create(model=NAME, **asked)
    assert (made.stop_reason, made.stop_sequence) == ("stop_sequence", "; ")
    assert made.content[0].type == "text" and made.content[0].text == "One. Two"


def test_tokens_are_counted(server: Running) -> None:
    counted = client_of(server).messages.count_tokens(model=NAME, messages=ASK)
    chat = server.client().chat.completions.create(model=NAME, messages=ASK, max_tokens=1)
    assert chat.usage is not None and counted.input_tokens == chat.usage.prompt_tokens


def test_errors_have_anthropics_form(server: Running, tiny_bundle: Any) -> None:
    with pytest.raises(anthropic.NotFoundError) as caught:
        client_of(server).messages.create(model="claude", messages=ASK, max_tokens=1)
    body: Any = caught.value.body
    assert body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError):
        client_of(server).messages.create(model=NAME, messages=ASK, max_tokens=0)
    with running(model_of(tiny_bundle), key="secret") as guarded:
        with pytest.raises(anthropic.AuthenticationError):
            client_of(guarded, "wrong").messages.create(model=NAME, messages=ASK, max_tokens=1)
        assert client_of(guarded, "secret").messages.create(model=NAME, messages=ASK, max_tokens=1).content


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"tool_choice": {"type": "auto"}}, "E633"),
        ({"messages": [{"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "1"}]}]}, "E632"),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}]},
            "E632",
        ),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "E632"),
    ],
    ids=str,
)
def test_what_has_no_place_is_refused(more: dict[str, Any], code: str) -> None:
    with pytest.raises(RequestError) as caught:
        chat_of_blocks(AnthropicBody(**{"model": "m", "messages": ASK, "max_tokens": 1, **more}))
    assert caught.value.code == code


def test_thinking_is_a_budget() -> None:
    def budget(thinking: Any) -> int | None:
        return chat_of_blocks(AnthropicBody(model="m", messages=ASK, max_tokens=9, thinking=thinking)).thinking_budget

    assert budget({"type": "enabled", "budget_tokens": 5}) == 5
    assert budget({"type": "disabled"}) == 0 and budget(None) is None
