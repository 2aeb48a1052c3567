"""Bodies of requests: what is taken, and how what is not is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgec.runtime_py.serve.bodies import ChatBody, CompletionBody, EmbeddingBody, Said, read_body
from edgec.runtime_py.serve.problems import RequestError


def completion(**asked: Any) -> CompletionBody:
    return read_body(json.dumps({"model": "tiny", "prompt": "a", **asked}).encode(), CompletionBody)


@pytest.mark.parametrize("stop", ["x" * 40, ["x" * 40] * 16])
def test_a_stop_string_may_be_longer_than_there_may_be_strings(stop: str | list[str]) -> None:
    assert completion(stop=stop).stop == stop


def test_more_than_sixteen_stop_strings_are_refused() -> None:
    with pytest.raises(RequestError, match="stop: at most 16 strings are taken") as caught:
        completion(stop=["x"] * 17)
    assert (caught.value.code, caught.value.param) == ("E632", "stop")


def test_a_long_name_is_not_sent_back_whole() -> None:
    with pytest.raises(RequestError) as caught:
        completion(**{"x" * 100_000: 1})
    assert caught.value.code == "E633" and len(caught.value.param) == 80


def _nulls(given: Any, kind: Any) -> Any:
    """A body with every optional value that it does not give as null, at every level."""
    names = {field.alias or name for name, field in kind.model_fields.items()}
    return {**dict.fromkeys(names), **given}


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (CompletionBody, {"model": "tiny", "prompt": "a"}),
        (ChatBody, {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}),
        (EmbeddingBody, {"model": "tiny", "input": "a"}),
    ],
)
def test_null_is_an_absent_value(kind: Any, given: dict[str, Any]) -> None:
    raw = json.dumps(_nulls(given, kind)).encode()
    assert read_body(raw, kind) == read_body(json.dumps(given).encode(), kind)


def test_null_is_an_absent_value_inside_a_body() -> None:
    call = {"id": "1", "type": None, "index": None, "function": {"name": "now", "arguments": "{}"}, "custom": None}
    schema = {"schema": {"const": None}, "name": None, "description": None, "strict": None}
    asked = {
        "model": "tiny",
        "stream": True,
        "stream_options": {"include_usage": None, "include_obfuscation": None},
        "messages": [
            _nulls({"role": "user", "content": [{"type": "text", "text": "a", "cache_control": None}]}, Said),
            _nulls({"role": "assistant", "tool_calls": [call]}, Said),
        ],
        "response_format": {"type": "json_schema", "json_schema": schema},
    }
    body = read_body(json.dumps(asked).encode(), ChatBody)
    assert body.messages[1].tool_calls is not None and body.messages[1].tool_calls[0].type == "function"
    assert body.response_format is not None and body.response_format.json_schema is not None
    assert body.response_format.json_schema.json_schema == {"const": None}  # a value of the schema stays
    assert body.stream_options is not None and body.stream_options.include_usage is False


@pytest.mark.parametrize("name", ["model", "prompt"])
def test_what_a_request_needs_is_not_null(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        completion(**{name: None})
    assert (caught.value.code, caught.value.param) == ("E632", name)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("best_of", 2, "taken is 1 only"),
        ("modalities", ["audio"], 'taken is ["text"] only'),
        ("echo", True, "taken is false only"),
    ],
)
def test_a_refusal_says_which_values_are_taken(name: str, value: Any, why: str) -> None:
    with pytest.raises(RequestError) as caught:
        completion(**{name: value})
    assert (caught.value.code, caught.value.param, caught.value.why) == ("E633", name, why)


def test_hints_are_taken_and_change_nothing() -> None:
    hints = {"metadata": {"a": "b"}, "prompt_cache_key": "k", "safety_identifier": "s", "store": True, "user": "me"}
    assert completion(**hints, verbosity="low", service_tier="flex", prediction={"type": "content"}) == completion()


@pytest.mark.parametrize("prompt", ["a", ["a", "b"], [1, 2], [[1], [2, 3]]])
def test_prompts_are_one_or_several(prompt: Any) -> None:
    several = prompt if isinstance(prompt, list) and not isinstance(prompt[0], int) else [prompt]
    assert completion(prompt=prompt).prompts() == several
    with pytest.raises(RequestError, match="17 answers"):
        completion(prompt=["a"] * 17).prompts()
