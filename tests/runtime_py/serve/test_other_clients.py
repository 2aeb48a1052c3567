"""Clients that others use: litellm, langchain, instructor, llm; each where the extra ``clients`` is installed."""

from __future__ import annotations

import os
from importlib.util import find_spec

import openai
import pytest
from pydantic import BaseModel, Field

from edgec.runtime_py.model import Model
from tests.runtime_py.serve.running import NAME, Running, script

# No client asks the network for lists of models and prices.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


def installed(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(name) is None, reason="the extra clients is not installed")


class Person(BaseModel):
    """Somebody."""

    name: str = Field(max_length=6)
    age: int = Field(ge=0, le=9)


CALL = '<tool_call>\n{"name": "Person", "arguments": {"name": "Tom", "age": 3}}\n</tool_call>'


@pytest.mark.long
@installed("litellm")
def test_litellm_chats_streams_and_takes_both_protocols(server: Running, model: Model) -> None:
    import litellm

    script(model, "Yes.")
    asked = {"api_key": "none", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}
    ours = {**asked, "model": f"openai/{NAME}", "api_base": server.url}
    assert litellm.completion(**ours).choices[0].message.content == "Yes."
    assert "".join(part.choices[0].delta.content or "" for part in litellm.completion(**ours, stream=True)) == "Yes."
    theirs = {**asked, "model": f"anthropic/{NAME}", "api_base": server.url.removesuffix("/v1")}
    assert litellm.completion(**theirs).choices[0].message.content == "Yes."
    server.settle()


@pytest.mark.long
@installed("langchain_openai")
def test_langchain_chats_streams_and_calls(server: Running, model: Model) -> None:
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model=NAME, base_url=server.url, api_key="none", temperature=0, max_tokens=120, max_retries=0)
    script(model, "Yes.")
    assert chat.invoke("Hi").content == "Yes."
    assert "".join(str(part.content) for part in chat.stream("Hi")) == "Yes."
    script(model, '{"name": "Tom", "age": 3}')
    assert chat.with_structured_output(Person).invoke("Hi") == Person(name="Tom", age=3)
    script(model, CALL)
    assert chat.bind_tools([Person]).invoke("Hi").tool_calls[0]["args"] == {"name": "Tom", "age": 3}
    server.settle()


@pytest.mark.long
@installed("instructor")
def test_instructors_default_mode(server: Running, model: Model) -> None:
    """It sends the class as a tool that must be called."""
    import instructor

    script(model, CALL)
    client = instructor.from_openai(openai.OpenAI(base_url=server.url, api_key="none", max_retries=0))
    made = client.chat.completions.create(
        model=NAME, response_model=Person, max_retries=1, messages=[{"role": "user", "content": "Hi"}], max_tokens=120
    )
    # Newer versions make it of a class of their own below the one that was asked for.
    assert isinstance(made, Person) and made.model_dump() == {"name": "Tom", "age": 3}
    server.settle()


@pytest.mark.long
@installed("llm")
def test_llm_prompts_and_streams(server: Running, model: Model) -> None:
    from llm.default_plugins.openai_models import Chat

    script(model, "Yes.")
    named = Chat(model_id="edgec", model_name=NAME, api_base=server.url)
    for stream in (False, True):
        assert named.prompt("Hi", stream=stream, max_tokens=9, key="none").text() == "Yes."
    server.settle()
