"""OpenAI's client with the path /v1/responses: items, events, conversations that go on, tools, schemas."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from edgec.runtime_py.generation.generate import Generation
from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.bodies import Said
from edgec.runtime_py.serve.kept_responses import KeptResponses
from edgec.runtime_py.serve.problems import RequestError
from edgec.runtime_py.serve.response_body import ResponseBody, answer_again, chat_of, messages_of
from tests.runtime_py.serve.running import ASK, CALL, NAME, Running, script

TOOL: Any = {"type": "function", "name": "now", "parameters": {"type": "object", "properties": {}}}


def test_a_response_is_the_chat(server: Running) -> None:
    client = server.client()
    chat = client.chat.completions.create(model=NAME, messages=ASK, temperature=0, max_tokens=12)
    made = client.responses.create(model=NAME, input="Hi", temperature=0, max_output_tokens=12)
    assert made.output_text == chat.choices[0].message.content
    assert made.status == "incomplete" and made.incomplete_details is not None
    assert made.incomplete_details.reason == "max_output_tokens"
    assert made.usage is not None and chat.usage is not None
    assert (made.usage.input_tokens, made.usage.output_tokens) == (chat.usage.prompt_tokens, 12)


@pytest.mark.long
def test_events_add_up_to_the_response(server: Running, model: Model) -> None:
    script(model, f"<think>Clock</think>\nIt is{CALL}")
    with server.client().responses.stream(model=NAME, input="Hi", temperature=0, tools=[TOOL]) as stream:
        events = list(stream)
        final = stream.get_final_response()
    numbers = [event.sequence_number for event in events if hasattr(event, "sequence_number")]
    assert numbers == sorted(numbers) and events[0].type == "response.created"
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call"]
    assert final.output_text == "It is" and final.status == "completed"
    call = final.output[2]
    assert call.type == "function_call" and (call.name, json.loads(call.arguments)) == ("now", {})
    reasoning = final.output[0]
    assert reasoning.type == "reasoning" and reasoning.content and reasoning.content[0].text == "Clock"
    assert final.usage is not None and final.usage.output_tokens_details.reasoning_tokens > 0


def test_a_conversation_goes_on_from_a_response(server: Running, model: Model) -> None:
    client = server.client()
    script(model, "One", "Two")
    first = client.responses.create(model=NAME, input="Hi", temperature=0, instructions="Be kind.")
    again = client.responses.create(model=NAME, input="And?", temperature=0, previous_response_id=first.id)
    assert (first.output_text, again.output_text) == ("One", "Two")
    assert again.usage is not None and first.usage is not None
    assert again.usage.input_tokens > first.usage.input_tokens - 4, "the first question and answer were read"
    assert client.responses.retrieve(first.id).output_text == "One"
    client.responses.delete(first.id)
    for gone in (first.id, "resp_none"):
        with pytest.raises(openai.NotFoundError):
            client.responses.create(model=NAME, input="And?", previous_response_id=gone)


def test_what_is_not_stored_is_not_kept(server: Running) -> None:
    client = server.client()
    made = client.responses.create(model=NAME, input="Hi", max_output_tokens=2, store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)


def test_a_tool_is_called_and_answered(server: Running, model: Model) -> None:
    client = server.client()
    script(model, CALL, "Noon")
    asked: Any = {"model": NAME, "temperature": 0, "tools": [TOOL]}
    first = client.responses.create(input="When?", **asked)
    call = first.output[0]
    assert call.type == "function_call"
    given: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "12:00"}]
    assert client.responses.create(input=given, previous_response_id=first.id, **asked).output_text == "Noon"
    items: Any = [{"role": "user", "content": "When?"}, call.model_dump(exclude_none=True), *given]
    assert client.responses.create(input=items, **asked).output_text == "Noon"


def test_a_schema_holds_the_text(server: Running) -> None:
    form: Any = {"type": "json_schema", "name": "n", "schema": {"type": "integer", "minimum": 0, "maximum": 9}}
    made = server.client().responses.create(model=NAME, input="Hi", max_output_tokens=4, text={"format": form})
    assert made.output_text in map(str, range(10))


@pytest.mark.parametrize(
    ("more", "param", "code"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools", "E633"),
        ({"conversation": "c"}, "conversation", "E633"),
        ({"background": True}, "background", "E632"),
        ({"truncation": "auto"}, "truncation", "E632"),
        ({"input": []}, "input", "E632"),
        ({"input": [{"type": "function_call_output", "call_id": "x", "output": "1"}]}, "messages", "E632"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text", "E632"),
    ],
    ids=str,
)
def test_what_cannot_be_answered_is_named(server: Running, more: dict[str, Any], param: str, code: str) -> None:
    status, held = server.post("/v1/responses", {"model": NAME, "input": "Hi", **more})
    assert (status, held["error"]["param"], held["error"]["code"]) == (400, param, code)


def test_items_become_messages() -> None:
    items: Any = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "c", "annotations": []}]},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "2", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "x"},
    ]
    said = messages_of(ResponseBody(model="m", input=items))
    assert [one.role for one in said] == ["developer", "user", "assistant", "tool"]
    assert said[1].content == "ab" and said[2].reasoning_content == "hm"
    assert [call.id for call in said[2].tool_calls or []] == ["1", "2"]
    chat = chat_of(ResponseBody(model="m", input=items, instructions="I", tools=[TOOL], tool_choice="auto"))
    assert chat.messages[0].content == "I" and chat.tools == [
        {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    ]


def kept(number: str, text: str) -> tuple[dict[str, Any], list[Said]]:
    return {"id": number}, [Said(role="user", content=text)]


def test_the_oldest_is_forgotten_first() -> None:
    held = KeptResponses(most=2)
    for number in ("a", "b", "c"):
        held.keep(*kept(number, "x"))
    with pytest.raises(RequestError):
        held.get("a")
    assert held.get("b") and held.get("c")
    few = KeptResponses(most_characters=500)
    few.keep(*kept("a", "x" * 400))
    few.keep(*kept("b", "x" * 400))
    with pytest.raises(RequestError):
        few.get("a")
    assert few.get("b"), "the newest stays, however long it is"


def test_an_answer_is_said_again_with_the_ids_of_its_response() -> None:
    made = Generation("text", (1,), 1, 0, "eos", 1.0, (), reasoning="hm")
    call = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
    said = answer_again({"output": [{"type": "message"}, call]}, made)
    assert said.tool_calls is not None and said.tool_calls[0].id == "call_1" and said.reasoning_content == "hm"
