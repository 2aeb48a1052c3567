"""Conversations as text, by a chat template that came from outside.

Templates are rendered by transformers' own renderer in a process that is started once and kept (about 60 MB), under
limits of processor time, memory and output: `limited_process` says why. One text costs it a fraction of a
millisecond; starting it takes as long as importing that renderer, and happens while the tokenizer is being read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, JsonValue, TypeAdapter, ValidationError

from edgec.bundle.limited_json import first_fault
from edgec.bundle.limited_process import LimitedProcess
from edgec.bundle.template_messages import as_taken
from edgec.errors import InputError

SECONDS = 5
_CHARACTERS, _GROWTH = 1 << 20, 8
Message = dict[str, Any]
"""One turn of a chat: ``role`` and ``content``, of an assistant that calls tools also ``tool_calls``."""

_CALLS = "tool_calls"
_MESSAGES = TypeAdapter(list[dict[str, str | list[dict[str, JsonValue]]]], config=ConfigDict(strict=True))


def render_messages(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    answer: bool = True,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    options: Mapping[str, Any] | None = None,
    clock: str | None = None,
) -> str:
    """A conversation as the tokenizer's chat template writes it.

    Args:
        tokenizer: of transformers, with a chat template.
        messages: ``{"role": ..., "content": ...}`` each, at least one.
        answer: end where the assistant's answer begins; without it, the conversation alone.
        tools: what the model may call, in OpenAI's form.
        options: further variables of the template, such as ``enable_thinking``.
        clock: the time that the template reads, as ``2026-01-31T12:00:00``; MARKS, to have each of its dates as a mark
            around its format; None for now.

    Raises:
        InputError: E154, the template refuses them; E159, it exceeds its limits.
        ToolError: E300, no process can be started for it.
    """
    return _rendered(tokenizer, _given(messages), tools, options, answer=answer, clock=clock)


def render_parts(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    answer: bool = True,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    options: Mapping[str, Any] | None = None,
    clock: str | None = None,
) -> str:
    """A conversation whose contents are lists of parts, as vision-language models take it.

    Args:
        tokenizer: of transformers, with a chat template.
        messages: ``{"role": ..., "content": [{"type": "image"}, {"type": "text", "text": ...}]}`` each.
        answer: as for ``render_messages``, and so the others.
        tools: what the model may call.
        options: further variables of the template.
        clock: likewise.

    Raises:
        InputError: E154, E159, and ToolError: E300, as ``render_messages``.
    """
    return _rendered(tokenizer, messages, tools, options, answer=answer, clock=clock)


def _rendered(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] = (),
    options: Mapping[str, Any] | None = None,
    *,
    answer: bool = True,
    clock: str | None = None,
) -> str:
    """Messages by the worker, whose output may grow with them."""
    try:
        template = tokenizer.get_chat_template(tools=list(tools) or None)
    except ValueError as cause:
        raise _refused(str(cause)) from cause
    job = {
        "template": template,
        "messages": as_taken(template, messages),
        "variables": {**tokenizer.special_tokens_map, **(options or {})},
        "tools": list(tools) or None,
        "answer": answer,
        "clock": clock,
    }
    size = len(json.dumps((messages, job["tools"]), default=str))
    reply = RENDERER.ask(job | {"characters": _CHARACTERS + _GROWTH * size, "seconds": SECONDS})
    if "limit" in reply:
        raise _beyond(reply["limit"])
    if "refused" in reply:
        raise _refused(reply["refused"])
    return str(reply["text"])


def check_messages(value: Any) -> list[Message]:
    """A conversation's messages: objects of texts, each with a role and a content; ``tool_calls`` is a list.

    Raises:
        ValueError: it is something else.
    """
    messages = _MESSAGES.validate_python(value)
    for number, message in enumerate(messages):
        if not {"role", "content"} <= message.keys():
            raise ValueError(f"message {number} has no role or no content")
        for name, held in message.items():
            if isinstance(held, str) is (name == _CALLS):
                raise ValueError(f"message {number} has {name} of another kind")
    return [dict(message) for message in messages]


def _given(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    try:
        return check_messages([dict(message) for message in messages])
    except (TypeError, ValueError) as cause:
        why = first_fault(cause) if isinstance(cause, ValidationError) else str(cause)
        what, fix = "The messages are not a conversation.", 'give {"role": "user", "content": "..."} for each'
        raise InputError(what, where="messages", why=why, fix=fix, code="E152") from cause


def _refused(why: str) -> InputError:
    return InputError(
        "The chat template refuses the messages.",
        where="tokenizer, chat_template",
        why=why,
        fix="use --raw for plain text, or other messages (some templates take no system message)",
        code="E154",
    )


def _beyond(why: str) -> InputError:
    return InputError(
        "The chat template exceeds its limits.",
        where="tokenizer, chat_template",
        why=why,
        fix="use --raw for plain text, or export the model with another chat template",
        code="E159",
    )


RENDERER = LimitedProcess("edgec.bundle.chat_template_worker", "that renders chat templates")
