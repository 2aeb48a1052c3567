"""One call of a tool, and the messages that hold calls and their results."""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from edgec.bundle.chat_template import Message

_LETTERS: Final = string.ascii_letters + string.digits
# Mistral's templates take ids of nine letters and digits, all others take any.
_ID_LENGTH: Final = 9


def new_id() -> str:
    """A fresh id of a call."""
    return "".join(secrets.choice(_LETTERS) for _ in range(_ID_LENGTH))


@dataclass(frozen=True)
class ToolCall:
    """A call that the model wrote.

    Attributes:
        name: the tool's name.
        arguments: what to call it with, by name; they fulfil the tool's schema.
        id: names the call in the message that holds its result.
    """

    name: str
    arguments: Mapping[str, Any]
    id: str = field(default_factory=new_id)

    def as_json(self) -> dict[str, Any]:
        """The call as it stands in a message, its arguments as an object."""
        function = {"name": self.name, "arguments": dict(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}


def assistant_message(text: str, reasoning: str = "", calls: Sequence[ToolCall] = ()) -> Message:
    """An assistant's message as chat templates read it."""
    message: Message = {"role": "assistant", "content": text}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [call.as_json() for call in calls]
    return message


def result_message(call: Mapping[str, Any], result: Any) -> Message:
    """The message with what a tool gave; what is not text becomes JSON."""
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
    return {"role": "tool", "content": text, "name": call["function"]["name"], "tool_call_id": call["id"]}
