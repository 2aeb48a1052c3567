"""Answers as /v1/responses writes them: a response with items, whole or as named events."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from edgec.runtime_py.generation.calls import ToolCall
from edgec.runtime_py.generation.generate import Generation
from edgec.runtime_py.messages.reader import CALL, REASONING
from edgec.runtime_py.serve.hosted import Written
from edgec.runtime_py.serve.probabilities import ChosenToken
from edgec.runtime_py.serve.response_body import ResponseBody

_CUT = ("length", "context")


@dataclass
class ResponseShape:
    """A response of /v1/responses.

    Attributes:
        model: its name.
        body: what was asked for, of which the response repeats most.
        count: how many tokens a text takes; reasoning is counted so, by writing it in tokens again.
        keep: is told the whole response and its answer.
    """

    model: str
    body: ResponseBody
    count: Callable[[str], int]
    keep: Callable[[dict[str, Any], Generation], None] = lambda *_: None
    number: str = field(default_factory=lambda: f"resp_{secrets.token_hex(24)}")
    created: int = field(default_factory=lambda: int(time.time()))
    _sent: int = 0
    _done: list[dict[str, Any]] = field(default_factory=list)
    _open: dict[str, Any] | None = None
    named: ClassVar[bool] = True

    def whole(self, made: Generation, chosen: list[ChosenToken]) -> dict[str, Any]:
        """The response at once."""
        items = [_reasoning(made.reasoning)] if made.reasoning else []
        if made.text or not made.tool_calls:
            items.append(_message(made.text))
        items += [_call(call) for call in made.tool_calls]
        return self._kept(_status(made), items, made)

    def _kept(self, status: str, items: Sequence[dict[str, Any]], made: Generation) -> dict[str, Any]:
        response = self._response(status, items, made)
        self.keep(response, made)
        return response

    def _response(self, status: str, items: Sequence[dict[str, Any]], made: Generation | None = None) -> dict[str, Any]:
        body = self.body
        cut = {"reason": "max_output_tokens"} if status == "incomplete" else None
        asked = body.text.format if body.text and body.text.format else None
        return {
            **{"id": self.number, "object": "response", "created_at": self.created, "status": status, "error": None},
            **{"background": False, "incomplete_details": cut, "instructions": body.instructions, "model": self.model},
            **{"max_output_tokens": body.max_output_tokens, "output": list(items), "metadata": body.metadata or {}},
            **{"parallel_tool_calls": body.parallel_tool_calls, "previous_response_id": body.previous_response_id},
            "reasoning": {"effort": body.reasoning.effort if body.reasoning else None, "summary": None},
            **{"store": body.store, "temperature": 1.0 if body.temperature is None else body.temperature},
            "text": {"format": asked.model_dump(by_alias=True, exclude_defaults=True) | {"type": asked.type}}
            if asked
            else {"format": {"type": "text"}},
            **{"tool_choice": body.tool_choice or "auto", "tools": body.tools or [], "truncation": body.truncation},
            **{
                "top_p": 1.0 if body.top_p is None else body.top_p,
                "usage": None if made is None else self._usage(made),
            },
        }

    def _usage(self, made: Generation) -> dict[str, Any]:
        new = len(made.tokens)
        return {
            "input_tokens": made.prompt_tokens,
            "input_tokens_details": {"cached_tokens": made.cached_tokens},
            "output_tokens": new,
            "output_tokens_details": {
                "reasoning_tokens": min(new, self.count(made.reasoning)) if made.reasoning else 0
            },
            "total_tokens": made.prompt_tokens + new,
        }

    def _event(self, kind: str, **held: Any) -> dict[str, Any]:
        self._sent += 1
        return {"type": f"response.{kind}", "sequence_number": self._sent - 1, **held}

    def first(self) -> Iterator[dict[str, Any]]:
        """The events before any piece: the response was made, and is on its way."""
        for kind in ("created", "in_progress"):
            yield self._event(kind, response=self._response("in_progress", []))

    def chunks(self, written: Written) -> Iterator[dict[str, Any]]:
        """The events of a piece: of its calls, its reasoning or its text."""
        piece = written.piece
        if piece.kind == CALL:
            yield from self._close()
            for call in piece.calls:
                yield from self._called(call)
            return
        kind = "reasoning" if piece.kind == REASONING else "message"
        if self._open is None or self._open["type"] != kind:
            yield from self._close()
            yield from self._begin(kind)
        assert self._open is not None
        self._open["content"][0]["text"] += piece.text
        extra: dict[str, Any] = {"logprobs": []} if kind == "message" else {}
        yield self._event(f"{_TEXTS[kind]}.delta", **self._place(), delta=piece.text, **extra)

    def _place(self) -> dict[str, Any]:
        assert self._open is not None
        return {"item_id": self._open["id"], "output_index": len(self._done), "content_index": 0}

    def _begin(self, kind: str) -> Iterator[dict[str, Any]]:
        made = _reasoning("") if kind == "reasoning" else _message("")
        self._open = made | {"status": "in_progress"}
        added = {**self._open, "content": []}
        yield self._event("output_item.added", output_index=len(self._done), item=added)
        yield self._event("content_part.added", **self._place(), part=dict(self._open["content"][0]))

    def _close(self) -> Iterator[dict[str, Any]]:
        """The events of an item that is whole."""
        if self._open is None:
            return
        part, kind, place = self._open["content"][0], self._open["type"], self._place()
        extra: dict[str, Any] = {"logprobs": []} if kind == "message" else {}
        yield self._event(f"{_TEXTS[kind]}.done", **place, text=part["text"], **extra)
        yield self._event("content_part.done", **place, part=part)
        self._open["status"] = "completed"
        yield self._finished(self._open)
        self._open = None

    def _finished(self, item: dict[str, Any]) -> dict[str, Any]:
        self._done.append(item)
        return self._event("output_item.done", output_index=len(self._done) - 1, item=item)

    def _called(self, call: ToolCall) -> Iterator[dict[str, Any]]:
        item = _call(call)
        begun = item | {"arguments": "", "status": "in_progress"}
        place = {"item_id": item["id"], "output_index": len(self._done)}
        yield self._event("output_item.added", output_index=len(self._done), item=begun)
        yield self._event("function_call_arguments.delta", **place, delta=item["arguments"])
        told = {"name": item["name"], "arguments": item["arguments"]}
        yield self._event("function_call_arguments.done", **place, **told)
        yield self._finished(item)

    def last(self, made: Generation) -> Iterator[dict[str, Any]]:
        """The events after all pieces; the last one has the whole response."""
        if self._open is None and not self._done:
            yield from self._begin("message")
        yield from self._close()
        status = _status(made)
        yield self._event(status, response=self._kept(status, self._done, made))

    def fault(self, error: dict[str, Any]) -> dict[str, Any]:
        """The event of an error."""
        held = error["error"]
        self._sent += 1
        told = {"code": held["code"], "message": held["message"], "param": held["param"]}
        return {"type": "error", "sequence_number": self._sent - 1, **told}


_TEXTS = {"reasoning": "reasoning_text", "message": "output_text"}


def _status(made: Generation) -> str:
    return "incomplete" if made.finish_reason in _CUT else "completed"


def _message(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    number = f"msg_{secrets.token_hex(24)}"
    return {"id": number, "type": "message", "status": "completed", "role": "assistant", "content": [part]}


def _reasoning(text: str) -> dict[str, Any]:
    part = {"type": "reasoning_text", "text": text}
    number = f"rs_{secrets.token_hex(24)}"
    return {"id": number, "type": "reasoning", "status": "completed", "summary": [], "content": [part]}


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    told = {"call_id": call.id, "name": call.name, "arguments": arguments}
    return {"id": f"fc_{secrets.token_hex(24)}", "type": "function_call", "status": "completed", **told}
