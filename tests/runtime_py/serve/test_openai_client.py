"""OpenAI's own client against the server: chats, streams, tools, schemas, probabilities, errors."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import openai
import pytest

from edgec.runtime_py.model import Model
from tests.runtime_py.serve.running import CALL, NAME, NOW, Running, script

ASK: list[Any] = [{"role": "user", "content": "Hi"}]
CITY = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["n"]}
CLOSED = CITY | {"additionalProperties": False}


def test_models(server: Running) -> None:
    client = server.client()
    assert [one.id for one in client.models.list()] == [NAME]
    assert client.models.retrieve(NAME).owned_by == "edgec"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt")


def test_a_chat_is_that_of_the_python_api(server: Running, model: Model) -> None:
    client = server.client()
    made = client.chat.completions.create(model=NAME, messages=ASK, temperature=0, max_tokens=12)
    answer = made.choices[0].message
    expected = model.chat(system="").send("Hi", max_new_tokens=12)
    assert (answer.content, answer.role) == (expected.text, "assistant")
    assert made.choices[0].finish_reason == "length"
    assert made.usage is not None and made.usage.completion_tokens == 12
    assert made.usage.total_tokens == 12 + made.usage.prompt_tokens
    assert made.usage.prompt_tokens == expected.generation.prompt_tokens
    again = client.chat.completions.create(
        model=NAME,
        messages=[
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]},
        ],
        temperature=0,
        max_completion_tokens=5,
    )
    assert again.choices[0].message.content == model.chat("Be kind.").send("Hi", max_new_tokens=5).text


@pytest.mark.parametrize("options", [{"temperature": 0}, {"temperature": 1.0, "seed": 7}, {"seed": 3}])
def test_a_stream_says_the_same(server: Running, options: dict[str, Any]) -> None:
    client = server.client()
    asked: dict[str, Any] = {"model": NAME, "messages": ASK, "max_tokens": 14, **options}
    whole = client.chat.completions.create(**asked)
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].usage is not None and whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len({chunk.id for chunk in chunks}) == 1


def test_plain_texts(server: Running, model: Model) -> None:
    client = server.client()
    made = client.completions.create(model=NAME, prompt="Once upon", temperature=0, max_tokens=8)
    assert made.choices[0].text == model.generate("Once upon", max_new_tokens=8).text
    ids = client.completions.create(model=NAME, prompt=model.encode("Once upon"), temperature=0, max_tokens=8)
    assert ids.choices[0].text == made.choices[0].text
    assert client.completions.create(model=NAME, prompt=["Once"], temperature=0).usage.completion_tokens == 16  # type: ignore[union-attr]
    chunks = client.completions.create(model=NAME, prompt="Once upon", temperature=0, max_tokens=8, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == made.choices[0].text


@pytest.mark.long
def test_tools_there_and_back(server: Running, model: Model) -> None:
    client = server.client()
    script(model, f"<think>Hm</think>{CALL}", "It is late.")
    for stream in (False, True):
        asked: dict[str, Any] = {"model": NAME, "messages": ASK, "tools": [NOW], "temperature": 0}
        if stream:
            chunks = list(client.chat.completions.create(**asked, stream=True))
            calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
            assert chunks[-1].choices[0].finish_reason == "tool_calls"
            assert any((chunk.choices[0].delta.model_extra or {}).get("reasoning_content") for chunk in chunks)
            call, extra = calls[0], {"index": 0}
        else:
            made = client.chat.completions.create(**asked)
            answer = made.choices[0].message
            assert made.choices[0].finish_reason == "tool_calls" and answer.content is None
            assert (answer.model_extra or {})["reasoning_content"] == "Hm"
            call, extra = (answer.tool_calls or [])[0], {}
        assert call.function is not None and (call.function.name, call.function.arguments) == ("now", "{}")
        called = {"role": "assistant", "content": None, "tool_calls": [{**call.model_dump(), **extra}]}
        result = {"role": "tool", "tool_call_id": call.id, "content": "12:00"}
        after = client.chat.completions.create(**{**asked, "messages": [*ASK, called, result]})
        assert after.choices[0].message.content == "It is late."
        assert after.choices[0].finish_reason == "stop"


def test_a_tool_may_be_required(server: Running) -> None:
    asked: dict[str, Any] = {"model": NAME, "messages": ASK, "tools": [NOW], "temperature": 1, "seed": 5}
    named = {"type": "function", "function": {"name": "now"}}
    asked["extra_body"] = {"thinking_budget": 0}
    for choice in ("required", named):
        made = server.client().chat.completions.create(**asked | {"tool_choice": choice})
        assert made.choices[0].message.tool_calls


def test_json(server: Running) -> None:
    client = server.client()
    asked: dict[str, Any] = {"model": NAME, "messages": ASK, "temperature": 1, "seed": 1, "max_tokens": 60}
    schema = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": CLOSED}}
    asked["extra_body"] = {"thinking_budget": 0}
    made = client.chat.completions.create(**asked | {"response_format": schema})
    assert 0 <= json.loads(made.choices[0].message.content or "")["n"] <= 99
    free = client.chat.completions.create(**asked | {"response_format": {"type": "json_object"}})
    assert isinstance(json.loads(free.choices[0].message.content or ""), dict)


@pytest.mark.parametrize("form", [{"regex": "[a-c]{3}[0-9]"}, {"grammar": "start: /[a-c]{3}/ DIGIT\nDIGIT: /[0-9]/"}])
def test_a_regular_expression_or_a_grammar(server: Running, form: dict[str, str]) -> None:
    client = server.client()
    asked: dict[str, Any] = {"model": NAME, "temperature": 1, "seed": 1, "max_tokens": 30}
    text = client.completions.create(**asked, prompt="Hi", extra_body=form)
    assert re.fullmatch("[a-c]{3}[0-9]", text.choices[0].text)
    made = client.chat.completions.create(**asked, messages=ASK, extra_body={"thinking_budget": 0, **form})
    assert re.fullmatch("[a-c]{3}[0-9]", made.choices[0].message.content or "")


def test_probabilities(server: Running, model: Model) -> None:
    client = server.client()
    made = client.chat.completions.create(
        model=NAME, messages=ASK, temperature=0, max_tokens=6, logprobs=True, top_logprobs=3
    )
    told = made.choices[0].logprobs
    assert told is not None and told.content is not None and len(told.content) == 6
    for one in told.content:
        assert one.token == one.top_logprobs[0].token and one.logprob == one.top_logprobs[0].logprob < 0
        assert sum(math.exp(each.logprob) for each in one.top_logprobs) <= 1 + 1e-9
    assert (
        b"".join(bytes(one.bytes or ()) for one in told.content)
        .decode(errors="replace")
        .startswith((made.choices[0].message.content or "")[:1])
    )
    chunks = client.chat.completions.create(
        model=NAME, messages=ASK, temperature=0, max_tokens=6, logprobs=True, stream=True
    )
    streamed = [one for chunk in chunks if chunk.choices[0].logprobs for one in chunk.choices[0].logprobs.content or ()]
    # The second request may find its prompt in the cache, so that other calls compute it: the last digits of float32.
    assert [one.logprob for one in streamed] == pytest.approx([one.logprob for one in told.content], abs=1e-4)
    plain = client.completions.create(model=NAME, prompt="Once", temperature=0, max_tokens=4, logprobs=2)
    held = plain.choices[0].logprobs
    assert held is not None and len(held.tokens or ()) == len(held.token_logprobs or ()) == 4
    assert held.text_offset is not None and held.text_offset[0] == 0


def test_stop_and_thinking(server: Running, model: Model) -> None:
    client = server.client()
    script(model, "<think>One. Two.</think>Three. Four.")
    made = client.chat.completions.create(model=NAME, messages=ASK, temperature=0, stop=[". "])
    assert (made.choices[0].message.content, made.choices[0].finish_reason) == ("Three", "stop")
    cut = client.chat.completions.create(
        model=NAME, messages=ASK, temperature=0, max_tokens=40, extra_body={"thinking_budget": 2}
    )
    assert len((cut.choices[0].message.model_extra or {})["reasoning_content"]) < 6
    off = client.chat.completions.create(
        model=NAME, messages=ASK, temperature=0, max_tokens=20, reasoning_effort="none"
    )
    assert "reasoning_content" not in (off.choices[0].message.model_extra or {})


UNSUPPORTED: dict[str, Any] = {
    "audio": {"voice": "x"},
    "web_search_options": {},
    "unheard_of": 1,
    "reasoning_effort": "high",
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_an_unsupported_parameter_is_named(server: Running, name: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        server.client().chat.completions.create(model=NAME, messages=ASK, extra_body={name: UNSUPPORTED[name]})
    assert caught.value.param == name and caught.value.code == "E633"


def test_parameters_that_ask_for_nothing_are_taken(server: Running) -> None:
    neutral: dict[str, Any] = {"n": 1, "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "user": "me"}
    made = server.client().chat.completions.create(model=NAME, messages=ASK, max_tokens=2, **neutral)
    assert made.choices


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "temperature": ({"temperature": -1}, "E156"),
    "top_p": ({"top_p": 3}, "E156"),
    "seed": ({"seed": -4}, "E156"),
    "max_tokens": ({"max_tokens": 0}, "E632"),
    "stop": ({"stop": [""]}, "E156"),
    "top_logprobs": ({"top_logprobs": 3}, "E632"),
    "tool_choice": ({"tool_choice": "required"}, "E632"),
    "response_format": ({"response_format": {"type": "xml"}}, "E632"),
    "schema": ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {
        "type": "array", "uniqueItems": True}}}}, "E613"),
    "regex": ({"regex": "("}, "E616"),
    "grammar": ({"grammar": "start: nothing"}, "E616"),
    "regex and a schema": ({"regex": "a", "response_format": {"type": "json_object"}}, "E610"),
    "tools and a regex": ({"tools": [NOW], "regex": "a"}, "E627"),
    "equal tools": ({"tools": [NOW, NOW]}, "E621"),
    "tools and a schema": ({"tools": [NOW], "response_format": {"type": "json_object"}}, "E627"),
    "messages": ({"messages": []}, "E632"),
    "role": ({"messages": [{"role": "robot", "content": "x"}]}, "E632"),
    "picture": ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "E632"),
    "result of nothing": ({"messages": [{"role": "tool", "tool_call_id": "x", "content": "x"}]}, "E632"),
    "surrogate": ({"messages": [{"role": "user", "content": "\ud800"}]}, "E632"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_requests_are_400_and_compute_nothing(server: Running, model: Model, name: str) -> None:
    calls, (change, code) = script(model, "x"), WRONG[name]
    status, held = server.post("/v1/chat/completions", {"model": NAME, "messages": ASK, **change})
    assert (status, held["error"]["code"]) == (400, code) and not calls
    assert held["error"]["message"] and held["error"]["type"] == "invalid_request_error"


def test_a_prompt_beyond_the_context_is_400_and_computes_nothing(server: Running, model: Model) -> None:
    calls = script(model, "x")
    for path, body in (
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * 300}]}),
        ("/v1/completions", {"prompt": "word " * 300}),
        ("/v1/completions", {"prompt": [5] * 97}),
        ("/v1/completions", {"prompt": []}),
        ("/v1/completions", {"prompt": [10**6]}),
    ):
        for stream in (False, True):
            status, held = server.post(path, {"model": NAME, "stream": stream, **body})
            assert status == 400 and held["error"]["code"] in ("E150", "E632"), held
    assert not calls


def test_a_malformed_call_holds_its_text(server: Running, model: Model) -> None:
    script(model, CALL)
    asked: dict[str, Any] = {"model": NAME, "messages": ASK, "tools": [NOW], "temperature": 0, "max_tokens": 20}
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        server.client().chat.completions.create(**asked)
    assert caught.value.code == "E623" and CALL.startswith(caught.value.body["text"])  # type: ignore[index]
    with pytest.raises(openai.APIError, match="call"):
        list(server.client().chat.completions.create(**asked, stream=True))


def test_several_answers_are_choices(server: Running) -> None:
    client = server.client()
    asked: dict[str, Any] = {"model": NAME, "messages": ASK, "max_tokens": 6, "seed": 3}
    one = client.chat.completions.create(**asked)
    three = client.chat.completions.create(**asked, n=3)
    texts = [choice.message.content for choice in three.choices]
    assert [choice.index for choice in three.choices] == [0, 1, 2]
    assert texts[0] == one.choices[0].message.content and len(set(texts)) > 1
    assert one.usage is not None and three.usage is not None
    assert three.usage.prompt_tokens == one.usage.prompt_tokens and three.usage.completion_tokens == 18
    streamed = ["", "", ""]
    chunks = list(client.chat.completions.create(**asked, n=3, stream=True, stream_options={"include_usage": True}))
    for chunk in chunks:
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == texts and chunks[-1].usage == three.usage


def test_several_prompts_are_choices(server: Running) -> None:
    client = server.client()
    asked: dict[str, Any] = {"model": NAME, "temperature": 0, "max_tokens": 4}
    apart = [client.completions.create(**asked, prompt=prompt).choices[0].text for prompt in ("Hi", "Lily")]
    both = client.completions.create(**asked, prompt=["Hi", "Lily"])
    assert [choice.text for choice in both.choices] == apart
    with pytest.raises(openai.BadRequestError):
        client.completions.create(**asked, prompt=["Hi"] * 17)


def test_penalties_and_biases_do_what_they_say(server: Running, model: Model) -> None:
    client = server.client()
    asked: dict[str, Any] = {"model": NAME, "prompt": [5, 6], "temperature": 0, "max_tokens": 12}
    plain = client.completions.create(**asked, logprobs=1)
    logprobs = plain.choices[0].logprobs
    assert logprobs is not None and logprobs.tokens is not None
    token = model.generate([5, 6], max_new_tokens=1).tokens[0]
    other = client.completions.create(**asked, logit_bias={str(token): -100})
    assert other.choices[0].text != plain.choices[0].text
    wanted = model.generate([5, 6], max_new_tokens=12, frequency_penalty=2.0, presence_penalty=2.0).text
    assert client.completions.create(**asked, frequency_penalty=2, presence_penalty=2).choices[0].text == wanted
    for wrong in ({"frequency_penalty": 3}, {"logit_bias": {"x": 1}}, {"logit_bias": {"5": 1000}}):
        with pytest.raises(openai.BadRequestError):
            client.completions.create(**asked, **wrong)
