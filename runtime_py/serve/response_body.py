"""The body of /v1/responses, and the chat that it stands for.

A conversation is a list of items here: messages, calls of functions, what these gave, and reasoning. They become the
messages of /v1/chat/completions, after those of an earlier response where ``previous_response_id`` names one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from edgec.runtime_py.generation.generate import Generation
from edgec.runtime_py.serve.bodies import (
    MOST_MESSAGES,
    Called,
    CalledFunction,
    ChatBody,
    NamedSchema,
    ResponseFormat,
    Said,
)
from edgec.runtime_py.serve.content_parts import ContentPart, ImagePart, MessagePart, MessageParts, image_of
from edgec.runtime_py.serve.problems import malformed_body, unsupported, unusable_media
from edgec.runtime_py.serve.strict import MOST_TEXT, Strict

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class TextPart(Strict):
    """A part of an item's content; annotations and probabilities of an earlier answer say nothing to a model."""

    type: Literal["input_text", "output_text", "text", "reasoning_text", "summary_text", "refusal"]
    text: str = Field(default="", max_length=MOST_TEXT)
    refusal: str = Field(default="", max_length=MOST_TEXT)
    annotations: list[Any] = Field(default=[])
    logprobs: list[Any] = Field(default=[])


class InputImage(Strict):
    """An image of a message, as a ``data:`` URL."""

    type: Literal["input_image"]
    image_url: str | None = None
    detail: Any = None
    file_id: None = None


class MessageItem(Strict):
    """What somebody said."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart | InputImage]
    id: str | None = None
    status: str | None = None
    phase: str | None = None


class CallItem(Strict):
    """A call of a function, its arguments as JSON."""

    type: Literal["function_call"]
    call_id: str = Field(max_length=256)
    name: str = Field(max_length=256)
    arguments: str = Field(max_length=MOST_TEXT)
    id: str | None = None
    status: str | None = None


class OutputItem(Strict):
    """What a call gave."""

    type: Literal["function_call_output"]
    call_id: str = Field(max_length=256)
    output: str | list[TextPart]
    id: str | None = None
    status: str | None = None


class ReasoningItem(Strict):
    """What the model thought before an answer."""

    type: Literal["reasoning"]
    summary: list[TextPart] = Field(default=[])
    content: list[TextPart] = Field(default=[])
    id: str | None = None
    status: str | None = None
    encrypted_content: str | None = None


ResponseItem = MessageItem | CallItem | OutputItem | ReasoningItem


class TextFormat(Strict):
    """What the answer's text is to be; a schema lies beside its name here."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    name: str = ""
    description: str = ""
    strict: bool | None = None
    json_schema: dict[str, JsonValue] | None = Field(default=None, alias="schema")


class TextSettings(Strict):
    """The settings of the answer's text."""

    format: TextFormat | None = None
    verbosity: str | None = None


class ReasoningSettings(Strict):
    """How much the model may think; there are no summaries."""

    effort: Effort | None = None
    summary: str | None = None
    generate_summary: str | None = None


class ResponseStreamOptions(Strict):
    """What a stream hides; nothing is hidden here."""

    include_obfuscation: bool = False


class ResponseBody(Strict):
    """The body of /v1/responses."""

    model: str = Field(max_length=256)
    input: str | Annotated[list[ResponseItem], Field(max_length=MOST_MESSAGES)]
    instructions: str | None = Field(default=None, max_length=MOST_TEXT)
    previous_response_id: str | None = Field(default=None, max_length=256)
    store: bool = True
    stream: bool = False
    stream_options: ResponseStreamOptions | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = None
    top_p: float | None = None
    tools: list[dict[str, JsonValue]] | None = None
    tool_choice: str | dict[str, JsonValue] | None = None
    parallel_tool_calls: bool = True
    text: TextSettings | None = None
    reasoning: ReasoningSettings | None = None
    metadata: dict[str, JsonValue] | None = None
    truncation: Literal["disabled"] = "disabled"
    background: Literal[False] = False
    include: list[Literal["reasoning.encrypted_content"]] = Field(default=[])


def chat_of(body: ResponseBody, earlier: Sequence[Said] = ()) -> ChatBody:
    """The chat that a body stands for, after the messages of an earlier response.

    Raises:
        RequestError: E632, an item that has no place; E633, a tool that is not a function.
    """
    begin = [] if body.instructions is None else [Said(role="system", content=body.instructions)]
    given: dict[str, Any] = {
        "model": body.model,
        "messages": [*begin, *earlier, *messages_of(body)],
        "stream": body.stream,
        "max_completion_tokens": body.max_output_tokens,
        "temperature": body.temperature,
        "top_p": body.top_p,
        "tools": [_tool(tool) for tool in body.tools or []] or None,
        "tool_choice": _choice(body.tool_choice) if body.tools else None,
        "parallel_tool_calls": body.parallel_tool_calls,
        "response_format": _format(body.text.format if body.text else None),
        "reasoning_effort": body.reasoning.effort if body.reasoning else None,
    }
    if not given["messages"]:
        raise malformed_body("it is empty", "input")
    return ChatBody(**{name: value for name, value in given.items() if value is not None})


def messages_of(body: ResponseBody) -> list[Said]:
    """The items of a body as messages: reasoning and calls belong to the assistant's message that they stand beside."""
    if isinstance(body.input, str):
        return [Said(role="user", content=body.input)]
    said: list[Said] = []
    thought = ""
    for item in body.input:
        if isinstance(item, ReasoningItem):
            thought = _text(item.content) or _text(item.summary)
        elif isinstance(item, MessageItem):
            own = thought if item.role == "assistant" else None
            said.append(Said(role=item.role, content=_content(item.content), reasoning_content=own or None))
            thought = ""
        elif isinstance(item, OutputItem):
            said.append(Said(role="tool", content=_text(item.output), tool_call_id=item.call_id))
        else:
            call = Called(id=item.call_id, function=CalledFunction(name=item.name, arguments=item.arguments))
            said = _with_call(said, call, thought)
            thought = ""
    return said


def _with_call(said: list[Said], call: Called, thought: str) -> list[Said]:
    """The messages with one more call, in the assistant's last message where nothing came after it."""
    if said and said[-1].role == "assistant" and not thought:
        last = said[-1]
        return [*said[:-1], last.model_copy(update={"tool_calls": [*(last.tool_calls or []), call]})]
    return [*said, Said(role="assistant", tool_calls=[call], reasoning_content=thought or None)]


def _content(content: str | Sequence[TextPart | InputImage]) -> MessageParts:
    """A message's content as chats have it: parts where one of them is an image."""
    if isinstance(content, str):
        return content
    texts = [part for part in content if isinstance(part, TextPart)]
    if len(texts) == len(content):
        return _text(texts)
    return [_image(part) if isinstance(part, InputImage) else _text_part(part) for part in content]


def _text_part(part: TextPart) -> ContentPart:
    return ContentPart(type="text", text=_text([part]))


def _image(part: InputImage) -> ImagePart:
    if part.image_url is None:
        raise unusable_media("image_url", "it is missing")
    return image_of(part.image_url)


def _text(content: str | Sequence[TextPart]) -> str:
    return content if isinstance(content, str) else "".join(part.text or part.refusal for part in content)


def _tool(tool: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A function's description as chats have it: inside an object of its own."""
    if tool.get("type") != "function":
        raise unsupported("tools", f"{str(tool.get('type'))!r:.60} is not a function; functions alone are taken")
    names = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {name: tool[name] for name in names if tool.get(name) is not None}}


def _choice(choice: str | dict[str, JsonValue] | None) -> str | dict[str, JsonValue] | None:
    if isinstance(choice, dict) and choice.get("type") == "function" and "name" in choice:
        return {"type": "function", "function": {"name": choice["name"]}}
    return choice


def _format(asked: TextFormat | None) -> ResponseFormat | None:
    if asked is None:
        return None
    if asked.type != "json_schema":
        return ResponseFormat(type=asked.type)
    if asked.json_schema is None:
        raise malformed_body("the format json_schema has no schema", "text")
    return ResponseFormat(type="json_schema", json_schema=NamedSchema(name=asked.name, schema=asked.json_schema))


def answer_again(response: dict[str, Any], made: Generation) -> Said:
    """An answer as the message that a conversation goes on from; its calls have the ids that the response names."""
    called = [
        Called(id=item["call_id"], function=CalledFunction(name=item["name"], arguments=item["arguments"]))
        for item in response["output"]
        if item["type"] == "function_call"
    ]
    parts: list[MessagePart] = [ContentPart(type="text", text=made.text)]
    return Said(role="assistant", content=parts, reasoning_content=made.reasoning or None, tool_calls=called or None)
