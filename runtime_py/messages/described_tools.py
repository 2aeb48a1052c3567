"""Tools for chat templates that have no place for them: described in a message, called in one generic notation.

    tools, "Is it raining?"   ->  system: "# Tools ... <tools>{...}</tools> ...", user: "Is it raining?"
    a call, and its result    ->  assistant: "<tool_call>{...}</tool_call>", user: "<tool_response>...</tool_response>"

The words are those of Hermes and Qwen 2.5, which other models have seen most.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from edgec.bundle.chat_template import Message
from edgec.bundle.notations import CallForm
from edgec.bundle.tools import Tool

_CALLS: Final = "tool_calls"
_HEAD: Final = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n"
)
_TAIL: Final = (
    "\n\nFor each function call, return a json object with function name and arguments within {open}{close} XML tags:\n"
    '{open}\n{{"name": <function-name>, "arguments": <args-json-object>}}\n{close}'
)


def tool_block(tools: Sequence[Tool]) -> str:
    """The definitions of tools, one a line, between two marks."""
    lines = "\n".join(json.dumps(tool.definition, ensure_ascii=False) for tool in tools)
    return f"<tools>\n{lines}\n</tools>"


def with_description(messages: Sequence[Message], tools: Sequence[Tool], form: CallForm, role: str) -> list[Message]:
    """Messages, the first of which describes the tools.

    Args:
        messages: at least one.
        tools: what may be called.
        form: the notation of calls.
        role: ``system``: in the system message, which is made where there is none; ``user``: before the first user's.
    """
    text = _HEAD + tool_block(tools) + _TAIL.format(open=form.open, close=form.close)
    first = messages[0]
    if role == "system":
        rest = messages[1:] if first["role"] == "system" else messages
        own = first["content"] if first["role"] == "system" else ""
        return [{"role": "system", "content": _behind(own, text)}, *rest]
    rest, before = list(messages), text
    if first["role"] == "system":
        rest, before = rest[1:], f"{_text(first['content'])}\n\n{text}"
    place = next((index for index, one in enumerate(rest) if one["role"] == "user"), None)
    if place is None:
        return [{"role": "user", "content": before}, *rest]
    rest[place] = {**rest[place], "content": _ahead(rest[place]["content"], f"{before}\n\n")}
    return rest


def plain_messages(messages: Iterable[Message], form: CallForm) -> list[Message]:
    """Messages in which calls are text, and what they gave is a message of the user's; results in a row are one."""
    made: list[Message] = []
    for message in messages:
        one = _plain(message, form)
        if message["role"] == "tool" and made and made[-1].get("results"):
            made[-1] = {**made[-1], "content": f"{made[-1]['content']}\n{one['content']}"}
        else:
            made.append(one)
    return [{name: held for name, held in one.items() if name != "results"} for one in made]


def _plain(message: Message, form: CallForm) -> dict[str, Any]:
    if message["role"] == "tool":
        content = _text(message["content"])
        return {"role": "user", "content": f"<tool_response>\n{content}\n</tool_response>", "results": True}
    calls = message.get(_CALLS)
    if not calls:
        return dict(message)
    written = "\n".join(f"{form.open}\n{_call(each['function'])}\n{form.close}" for each in calls)
    rest = {name: held for name, held in message.items() if name != _CALLS}
    return {**rest, "content": _behind(message.get("content") or "", written, "\n")}


def _call(function: Mapping[str, Any]) -> str:
    return json.dumps({"name": function["name"], "arguments": function["arguments"]}, ensure_ascii=False)


def _text(content: Any) -> str:
    return "".join(part["text"] for part in content) if isinstance(content, list) else str(content)


def _ahead(content: Any, text: str) -> Any:
    """A content, text or parts, with some text before it."""
    return [{"type": "text", "text": text}, *content] if isinstance(content, list) else f"{text}{content}"


def _behind(content: Any, text: str, between: str = "\n\n") -> Any:
    """A content, text or parts, with some text after it."""
    if isinstance(content, list):
        return [*content, {"type": "text", "text": text}]
    return f"{content}{between}{text}" if content else text
