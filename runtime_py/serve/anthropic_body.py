"""The body of /v1/messages, Anthropic's form of a chat, and the chat that it stands for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from edgec.runtime_py.serve.bodies import (
    MOST_MESSAGES,
    MOST_STOPS,
    Called,
    CalledFunction,
    ChatBody,
    Said,
)
from edgec.runtime_py.serve.content_parts import ContentPart, ImagePart, MessageParts, image_of
from edgec.runtime_py.serve.problems import malformed_body, unsupported
from edgec.runtime_py.serve.strict import MOST_TEXT, Strict


class TextBlock(Strict):
    """A piece of text; where it is cached is the server's own choice."""

    type: Literal["text"]
    text: str = Field(max_length=MOST_TEXT)
    cache_control: Any = None
    citations: Any = None


class ImageSource64(Strict):
    """An image's file in base64."""

    type: Literal["base64"]
    media_type: Literal["image/png", "image/jpeg", "image/webp", "image/gif"]
    data: str


class ImageSourceUrl(Strict):
    """An address, of which data: URLs alone are read."""

    type: Literal["url"]
    url: str


class ImageBlock(Strict):
    """An image."""

    type: Literal["image"]
    source: Annotated[ImageSource64 | ImageSourceUrl, Field(discriminator="type")]
    cache_control: Any = None

    def part(self) -> ImagePart:
        """The part of a chat that it stands for."""
        source = self.source
        if isinstance(source, ImageSourceUrl):
            return image_of(source.url)
        return image_of(f"data:{source.media_type};base64,{source.data}")


class ThinkingBlock(Strict):
    """What the model thought; a signature says nothing here."""

    type: Literal["thinking"]
    thinking: str = Field(max_length=MOST_TEXT)
    signature: str = ""


class ToolUseBlock(Strict):
    """A call of a tool."""

    type: Literal["tool_use"]
    id: str = Field(max_length=256)
    name: str = Field(max_length=256)
    input: dict[str, JsonValue]
    cache_control: Any = None
    caller: Any = None


class ToolResultBlock(Strict):
    """What a call gave."""

    type: Literal["tool_result"]
    tool_use_id: str = Field(max_length=256)
    content: str | list[TextBlock] = ""
    is_error: bool = False
    cache_control: Any = None


AnthropicBlock = Annotated[
    TextBlock | ImageBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock, Field(discriminator="type")
]


class AnthropicMessage(Strict):
    """What somebody said, in blocks."""

    role: Literal["user", "assistant"]
    content: str | list[AnthropicBlock]


class AnthropicTool(Strict):
    """A tool with the schema of its arguments."""

    name: str = Field(max_length=256)
    description: str = ""
    input_schema: dict[str, JsonValue]
    type: Literal["custom"] = "custom"
    cache_control: Any = None
    strict: bool | None = None


class AnthropicToolChoice(Strict):
    """Which tools may be called."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool = False


class Thinking(Strict):
    """How many tokens the model may think."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = Field(default=None, ge=1)
    display: Any = None


class AnthropicBody(Strict):
    """The body of /v1/messages."""

    model: str = Field(max_length=256)
    messages: list[AnthropicMessage] = Field(min_length=1, max_length=MOST_MESSAGES)
    max_tokens: int | None = Field(default=None, ge=1)
    system: str | list[TextBlock] = ""
    stop_sequences: list[str] = Field(default=[], max_length=MOST_STOPS)
    stream: bool = False
    temperature: float | None = Field(default=None, ge=0, le=1)
    top_p: float | None = None
    top_k: int | None = None
    tools: list[AnthropicTool] = Field(default=[])
    tool_choice: AnthropicToolChoice | None = None
    thinking: Thinking | None = None


def chat_of_blocks(body: AnthropicBody) -> ChatBody:
    """The chat that a body stands for.

    Raises:
        RequestError: E632, blocks that have no place; E633, a tool choice without tools.
    """
    system = _text(body.system)
    said = [Said(role="system", content=system)] if system else []
    for message in body.messages:
        said += _said(message)
    choice, thinking = body.tool_choice, body.thinking
    if choice is not None and not body.tools:
        raise unsupported("tool_choice", "there are no tools")
    given: dict[str, Any] = {
        "model": body.model,
        "messages": said,
        "stream": body.stream,
        "max_completion_tokens": body.max_tokens,
        "temperature": body.temperature,
        "top_p": body.top_p,
        "top_k": body.top_k,
        "stop": body.stop_sequences or None,
        "tools": [_tool(tool) for tool in body.tools] or None,
        "tool_choice": None if choice is None else _choice(choice),
        "parallel_tool_calls": None if choice is None else not choice.disable_parallel_tool_use,
        "thinking_budget": 0 if thinking is not None and thinking.type == "disabled" else _budget(thinking),
    }
    return ChatBody(**{name: value for name, value in given.items() if value is not None})


def _budget(thinking: Thinking | None) -> int | None:
    return None if thinking is None else thinking.budget_tokens


def _said(message: AnthropicMessage) -> list[Said]:
    """One message as several: what tools gave comes first, each as a message of its own."""
    blocks = [TextBlock(type="text", text=message.content)] if isinstance(message.content, str) else message.content
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    calls = [_called(block) for block in blocks if isinstance(block, ToolUseBlock)]
    thoughts = "".join(block.thinking for block in blocks if isinstance(block, ThinkingBlock))
    if message.role == "assistant":
        if results or any(isinstance(block, ImageBlock) for block in blocks):
            raise malformed_body("an assistant's message has the result of a tool, or an image", "messages")
        return [Said(role="assistant", content=text, tool_calls=calls or None, reasoning_content=thoughts or None)]
    if calls or thoughts:
        raise malformed_body("a user's message has calls of tools, or thoughts", "messages")
    given = [Said(role="tool", content=_text(one.content), tool_call_id=one.tool_use_id) for one in results]
    if any(isinstance(block, ImageBlock) for block in blocks):
        return [*given, Said(role="user", content=_parts(blocks))]
    return [*given, *([Said(role="user", content=text)] if text or not results else [])]


def _parts(blocks: Sequence[AnthropicBlock]) -> MessageParts:
    """A user's text and images in their order."""
    parts: list[ContentPart | ImagePart] = []
    for block in blocks:
        if isinstance(block, ImageBlock):
            parts.append(block.part())
        elif isinstance(block, TextBlock):
            parts.append(ContentPart(type="text", text=block.text))
    return [*parts]


def _called(block: ToolUseBlock) -> Called:
    arguments = json.dumps(block.input, ensure_ascii=False)
    return Called(id=block.id, function=CalledFunction(name=block.name, arguments=arguments))


def _text(content: str | Sequence[TextBlock]) -> str:
    return content if isinstance(content, str) else "".join(block.text for block in content)


def _tool(tool: AnthropicTool) -> dict[str, Any]:
    described = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": described}


def _choice(choice: AnthropicToolChoice) -> str | dict[str, Any]:
    if choice.type == "tool":
        if choice.name is None:
            raise malformed_body("it names no tool", "tool_choice")
        return {"type": "function", "function": {"name": choice.name}}
    return {"auto": "auto", "any": "required", "none": "none"}[choice.type]
