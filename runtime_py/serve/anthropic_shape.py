"""Answers as /v1/messages writes them: a message of blocks, whole or as named events."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from edgec.runtime_py.generation.calls import ToolCall
from edgec.runtime_py.generation.generate import Generation
from edgec.runtime_py.messages.reader import CALL, REASONING
from edgec.runtime_py.serve.hosted import Written
from edgec.runtime_py.serve.probabilities import ChosenToken

_REASONS: Final = {"eos": "end_turn", "complete": "end_turn", "stop": "stop_sequence"}
_KINDS: Final = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large"}
_FURTHER: Final = {429: "rate_limit_error", 504: "timeout_error", 503: "overloaded_error"}
_SERVERS: Final = 500


@dataclass
class BlockShape:
    """A message of /v1/messages.

    Attributes:
        model: its name.
        prompt_tokens: of the prompt, which the first event tells.
    """

    model: str
    prompt_tokens: int
    number: str = field(default_factory=lambda: f"msg_{secrets.token_hex(12)}")
    _count: int = 0
    _open: str = ""
    named: ClassVar[bool] = True

    def whole(self, made: Generation, chosen: list[ChosenToken]) -> dict[str, Any]:
        """The message at once."""
        blocks = [{"type": "thinking", "thinking": made.reasoning, "signature": ""}] if made.reasoning else []
        if made.text or not made.tool_calls:
            blocks.append({"type": "text", "text": made.text, "citations": None})  # type: ignore[dict-item]
        content = [*blocks, *(_use(call) | {"input": call.arguments} for call in made.tool_calls)]
        return self._message(content, {**_ended(made), "usage": _usage(made)})

    def _message(self, content: Sequence[Any], told: dict[str, Any]) -> dict[str, Any]:
        begin = {"id": self.number, "type": "message", "role": "assistant", "model": self.model}
        return {**begin, "content": list(content), **told}

    def first(self) -> Iterator[dict[str, Any]]:
        """The event before any block."""
        usage = {"input_tokens": self.prompt_tokens, "output_tokens": 0}
        nothing = {"stop_reason": None, "stop_sequence": None, "usage": usage}
        yield {"type": "message_start", "message": self._message([], nothing)}

    def chunks(self, written: Written) -> Iterator[dict[str, Any]]:
        """The events of a piece: of its calls, its reasoning or its text."""
        piece = written.piece
        if piece.kind == CALL:
            yield from self._close()
            for call in piece.calls:
                yield from self._called(call)
            return
        kind = "thinking" if piece.kind == REASONING else "text"
        if self._open != kind:
            yield from self._close()
            yield from self._begin(kind, {"type": kind, kind: "", **({"signature": ""} if kind == "thinking" else {})})
        yield self._delta({"type": f"{kind}_delta", kind: piece.text})

    def _begin(self, kind: str, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self._open = kind
        yield {"type": "content_block_start", "index": self._count, "content_block": block}

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._count, "delta": delta}

    def _close(self) -> Iterator[dict[str, Any]]:
        if not self._open:
            return
        yield {"type": "content_block_stop", "index": self._count}
        self._count, self._open = self._count + 1, ""

    def _called(self, call: ToolCall) -> Iterator[dict[str, Any]]:
        yield from self._begin("tool_use", _use(call) | {"input": {}})
        written = json.dumps(call.arguments, ensure_ascii=False)
        yield self._delta({"type": "input_json_delta", "partial_json": written})
        yield from self._close()

    def last(self, made: Generation) -> Iterator[dict[str, Any]]:
        """The events after all pieces."""
        yield from self._close()
        yield {"type": "message_delta", "delta": _ended(made), "usage": _usage(made)}
        yield {"type": "message_stop"}

    def fault(self, error: dict[str, Any]) -> dict[str, Any]:
        """The event of an error."""
        return blocks_error(_SERVERS, error)


def blocks_error(status: int, error: dict[str, Any]) -> dict[str, Any]:
    """An error as Anthropic's clients expect it."""
    kind = {**_KINDS, **_FURTHER}.get(status, "api_error" if status >= _SERVERS else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": error["error"]["message"]}}


def _use(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name}


def _ended(made: Generation) -> dict[str, Any]:
    reason = "tool_use" if made.tool_calls else _REASONS.get(made.finish_reason, "max_tokens")
    return {"stop_reason": reason, "stop_sequence": made.stopped_by if reason == "stop_sequence" else None}


def _usage(made: Generation) -> dict[str, Any]:
    """Tokens; those of the prompt that the KV cache had are counted apart, as Anthropic's API counts them."""
    return {
        "input_tokens": made.prompt_tokens - made.cached_tokens,
        "cache_read_input_tokens": made.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": len(made.tokens),
    }
