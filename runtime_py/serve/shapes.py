"""Answers as OpenAI's protocol writes them, whole and in chunks."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from edgec.runtime_py.generate import Generation
from edgec.runtime_py.messages.calls import ToolCall
from edgec.runtime_py.messages.reader import CALL, REASONING
from edgec.runtime_py.serve.hosted import Written
from edgec.runtime_py.serve.probabilities import ChosenToken, TokenTexts

_REASONS: Final = {"eos": "stop", "stop": "stop", "complete": "stop", "length": "length", "context": "length"}


class AnswerShape(Protocol):
    """How one kind of answer is written."""

    def whole(self, made: Generation, chosen: list[ChosenToken]) -> dict[str, Any]:
        """The answer at once."""

    def chunks(self, written: Written) -> Iterator[dict[str, Any]]:
        """The chunks of a piece."""

    def first(self) -> Iterator[dict[str, Any]]:
        """The chunks before any piece."""

    def last(self, made: Generation) -> dict[str, Any]:
        """The chunk that says why the answer ended."""

    def usage(self, made: Generation) -> dict[str, Any]:
        """The chunk that counts tokens."""


def usage_of(made: Generation) -> dict[str, Any]:
    """How many tokens were read and written."""
    new = len(made.tokens)
    return {
        "prompt_tokens": made.prompt_tokens,
        "completion_tokens": new,
        "total_tokens": made.prompt_tokens + new,
        "prompt_tokens_details": {"cached_tokens": made.cached_tokens},
    }


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
    return {"id": call.id, "type": "function", "function": function}


@dataclass
class MessageShape:
    """A message of /v1/chat/completions."""

    model: str
    texts: TokenTexts
    probabilities: bool = False
    number: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))
    _calls: int = 0

    def _object(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.number, "object": kind, "created": self.created, "model": self.model, "choices": choices}

    def _chunk(self, delta: dict[str, Any], reason: str | None = None, logprobs: Any = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        return self._object("chat.completion.chunk", [choice])

    def _logprobs(self, chosen: list[ChosenToken]) -> dict[str, Any] | None:
        if not self.probabilities:
            return None
        return {"content": [self.texts.for_chat(each) for each in chosen], "refusal": None}

    def whole(self, made: Generation, chosen: list[ChosenToken]) -> dict[str, Any]:
        """The answer at once, as a `chat.completion` with one message."""
        message: dict[str, Any] = {"role": "assistant", "content": made.text or (None if made.tool_calls else "")}
        message["refusal"] = None
        if made.reasoning:
            message["reasoning_content"] = made.reasoning
        if made.tool_calls:
            message["tool_calls"] = [_call(call) for call in made.tool_calls]
        choice = {"index": 0, "message": message, "logprobs": self._logprobs(chosen), "finish_reason": _reason(made)}
        return {**self._object("chat.completion", [choice]), "usage": usage_of(made)}

    def first(self) -> Iterator[dict[str, Any]]:
        """The chunk before any piece, which says that the assistant speaks."""
        yield self._chunk({"role": "assistant", "content": ""})

    def chunks(self, written: Written) -> Iterator[dict[str, Any]]:
        """The chunk of a piece: its calls, its reasoning or its text."""
        piece = written.piece
        if piece.kind == CALL:
            calls = [{"index": self._calls + place, **_call(call)} for place, call in enumerate(piece.calls)]
            self._calls += len(calls)
            yield self._chunk({"tool_calls": calls})
        elif piece.kind == REASONING:
            yield self._chunk({"reasoning_content": piece.text})
        else:
            yield self._chunk({"content": piece.text}, logprobs=self._logprobs(list(written.chosen)))

    def last(self, made: Generation) -> dict[str, Any]:
        """The chunk without text that says why the message ended."""
        return self._chunk({}, _reason(made))

    def usage(self, made: Generation) -> dict[str, Any]:
        """The chunk without choices that counts the tokens of the message."""
        return {**self._object("chat.completion.chunk", []), "usage": usage_of(made)}


@dataclass
class TextShape:
    """A text of /v1/completions."""

    model: str
    texts: TokenTexts
    probabilities: bool = False
    number: str = field(default_factory=lambda: f"cmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))
    _length: int = 0

    def _object(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = "text_completion"
        return {"id": self.number, "object": kind, "created": self.created, "model": self.model, "choices": choices}

    def _choice(self, text: str, reason: str | None, chosen: list[ChosenToken]) -> dict[str, Any]:
        logprobs = self.texts.for_text(chosen, self._length) if self.probabilities else None
        self._length += len(text)
        return {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": reason}

    def whole(self, made: Generation, chosen: list[ChosenToken]) -> dict[str, Any]:
        """The answer at once, as a `text_completion`."""
        return {**self._object([self._choice(made.text, _reason(made), chosen)]), "usage": usage_of(made)}

    def first(self) -> Iterator[dict[str, Any]]:
        """No chunks: a plain text has none before its first piece."""
        return iter(())

    def chunks(self, written: Written) -> Iterator[dict[str, Any]]:
        """The chunk of a piece of text."""
        yield self._object([self._choice(written.piece.text, None, list(written.chosen))])

    def last(self, made: Generation) -> dict[str, Any]:
        """The chunk without text that says why the text ended."""
        return self._object([{"index": 0, "text": "", "logprobs": None, "finish_reason": _reason(made)}])

    def usage(self, made: Generation) -> dict[str, Any]:
        """The chunk without choices that counts the tokens of the text."""
        return {**self._object([]), "usage": usage_of(made)}


def _reason(made: Generation) -> str:
    return "tool_calls" if made.tool_calls else _REASONS[made.finish_reason]
