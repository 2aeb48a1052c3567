"""Messages as a chat template takes them, where it has no place for a part that others have a place for.

    LFM2:     {"content": "", "tool_calls": [...]}                    ==>    {"content": "<|tool_call_start|>[...]..."}
    gpt-oss:  {"reasoning_content": R, "content": T, "tool_calls": [...]}    ==>    {"reasoning_content": R + T, ...}

LFM2's template reads contents alone, so that the model would see a result of a call that nobody made; gpt-oss's refuses
reasoning and a text before one call, and shows either as reasoning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from edgec.bundle.notations import CallForm, call_form

_REASONING: Final = "reasoning_content"
_CALLS: Final = "tool_calls"


def as_taken(template: str, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages as a template takes them; those that it takes already stay as they are."""
    made, form = [dict(message) for message in messages], call_form(template)
    if form is None:
        return made
    if _CALLS not in template and form.writing.kind == "python":
        made = [_with_calls_in_content(message, form) for message in made]
    return [_with_one_text(message) for message in made] if form.frame.note else made


def _with_one_text(message: dict[str, Any]) -> dict[str, Any]:
    """Reasoning and the text between it and a call as one."""
    thought, content = message.get(_REASONING), message.get("content")
    if not (thought and content and message.get(_CALLS) and isinstance(content, str)):
        return message
    return {**message, "content": "", _REASONING: f"{thought}\n\n{content}"}


def _with_calls_in_content(message: dict[str, Any], form: CallForm) -> dict[str, Any]:
    """Calls at the beginning of the content, where the model card of LFM2 has them."""
    content = message.get("content") or ""
    if not message.get(_CALLS) or not isinstance(content, str):
        return message
    written = ", ".join(_call(each["function"]) for each in message.pop(_CALLS))
    return {**message, "content": f"{form.open}[{written}]{form.close}{content}"}


def _call(function: Mapping[str, Any]) -> str:
    held = ", ".join(f"{name}={_python(value)}" for name, value in function["arguments"].items())
    return f"{function['name']}({held})"


def _python(value: Any) -> str:
    """A value of JSON as Python writes it, with texts in double quotes."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Mapping():
            return "{" + ", ".join(f"{_python(key)}: {_python(each)}" for key, each in value.items()) + "}"
        case list() | tuple():
            return f"[{', '.join(map(_python, value))}]"
    return repr(value)
