"""Answers as OpenAI's protocol writes them, whole and in chunks."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

from edgec.runtime_py.generation.calls import ToolCall
from edgec.runtime_py.generation.generate import Generation
from edgec.runtime_py.messages.reader import CALL, REASONING
from edgec.runtime_py.serve.hosted import Written
from edgec.runtime_py.serve.probabilities import ChosenToken, TokenTexts

_REASONS: Final = {"eos": "stop", "stop": "stop", "complete": "stop", "length": "length", "context": "length"}


class AnswerShape(Protocol):
    """How one kind of answer is written.

    Attributes:
        named: events have the name that their ``type`` says, and the last one is no ``[DONE]``.
    """

    named: ClassVar[bool]

    def whole(self, made: Generation, chosen: list[ChosenToken]) -> dict[str, Any]:
        """The answer at once."""

    def chunks(self, written: Written) -> Iterator[dict[str, Any]]:
        """The chunks of a piece."""

    def first(self) -> Iterator[dict[str, Any]]:
        """The chunks before any piece."""

    def last(self, made: Generation) -> Iterator[dict[str, Any]]:
        """The chunks after all pieces, which say why the answer ended."""

    def fault(self, error: dict[str, Any]) -> dict[str, Any]:
        """The chunk of an error, of the object that whole answers have of it."""


def usage_of(made: Sequence[Generation], each: int = 1) -> dict[str, Any]:
    """How many tokens were read and written for a request's answers, of which ``each`` prompt has so many."""
    prompts = made[::each]
    read, new = sum(one.prompt_tokens for one in prompts), sum(len(one.tokens) for one in made)
    return {
        "prompt_tokens": read,
        "completion_tokens": new,
        "total_tokens": read + new,
        "prompt_tokens_details": {"cached_tokens": sum(one.cached_tokens for one in prompts)},
    }


def joined(answers: Sequence[dict[str, Any]], made: Sequence[Generation], each: int) -> dict[str, Any]:
    """The answers of one request as one object, which has the choices of all; ``each``: of a prompt."""
    if len(answers) == 1:
        return answers[0]
    choices = [choice for answer in answers for choice in answer["choices"]]
    return {**answers[0], "choices": choices, "usage": usage_of(made, each)}


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
    index: int = 0
    each: int = 1
    _calls: int = 0
    named: ClassVar[bool] = False

    def _object(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.number, "object": kind, "created": self.created, "model": self.model, "choices": choices}

    def _chunk(self, delta: dict[str, Any], reason: str | None = None, logprobs: Any = None) -> dict[str, Any]:
        choice = {"index": self.index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
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
        told = {"logprobs": self._logprobs(chosen), "finish_reason": _reason(made)}
        choice = {"index": self.index, "message": message, **told}
        return {**self._object("chat.completion", [choice]), "usage": usage_of([made])}

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

    def last(self, made: Generation) -> Iterator[dict[str, Any]]:
        """The chunk without text that says why the message ended."""
        yield self._chunk({}, _reason(made))

    def fault(self, error: dict[str, Any]) -> dict[str, Any]:
        """The error as it is."""
        return error

    def usage(self, made: Sequence[Generation]) -> dict[str, Any]:
        """The chunk without choices that counts the tokens of all messages."""
        return {**self._object("chat.completion.chunk", []), "usage": usage_of(made, self.each)}


@dataclass
class TextShape:
    """A text of /v1/completions."""

    model: str
    texts: TokenTexts
    probabilities: bool = False
    number: str = field(default_factory=lambda: f"cmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))
    index: int = 0
    each: int = 1
    _length: int = 0
    named: ClassVar[bool] = False

    def _object(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = "text_completion"
        return {"id": self.number, "object": kind, "created": self.created, "model": self.model, "choices": choices}

    def _choice(self, text: str, reason: str | None, chosen: list[ChosenToken]) -> dict[str, Any]:
        logprobs = self.texts.for_text(chosen, self._length) if self.probabilities else None
        self._length += len(text)
        return {"index": self.index, "text": text, "logprobs": logprobs, "finish_reason": reason}

    def whole(self, made: Generation, chosen: list[ChosenToken]) -> dict[str, Any]:
        """The answer at once, as a `text_completion`."""
        return {**self._object([self._choice(made.text, _reason(made), chosen)]), "usage": usage_of([made])}

    def first(self) -> Iterator[dict[str, Any]]:
        """No chunks: a plain text has none before its first piece."""
        return iter(())

    def chunks(self, written: Written) -> Iterator[dict[str, Any]]:
        """The chunk of a piece of text."""
        yield self._object([self._choice(written.piece.text, None, list(written.chosen))])

    def last(self, made: Generation) -> Iterator[dict[str, Any]]:
        """The chunk without text that says why the text ended."""
        yield self._object([{"index": self.index, "text": "", "logprobs": None, "finish_reason": _reason(made)}])

    def fault(self, error: dict[str, Any]) -> dict[str, Any]:
        """The error as it is."""
        return error

    def usage(self, made: Sequence[Generation]) -> dict[str, Any]:
        """The chunk without choices that counts the tokens of all texts."""
        return {**self._object([]), "usage": usage_of(made, self.each)}


def _reason(made: Generation) -> str:
    return "tool_calls" if made.tool_calls else _REASONS[made.finish_reason]
