"""From a request that is ready to its response: an object, or server-sent events as the pieces come."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from edgec.errors import EdgecError
from edgec.runtime_py.generation.generate import Generation
from edgec.runtime_py.serve.adapters import ServedModel
from edgec.runtime_py.serve.answer_group import AnswerGroup, AnswerPart
from edgec.runtime_py.serve.limits import ServeLimits
from edgec.runtime_py.serve.preparing import until_gone
from edgec.runtime_py.serve.problems import as_body
from edgec.runtime_py.serve.shapes import AnswerShape, joined
from edgec.runtime_py.serve.stopping import Closing, Gone
from edgec.runtime_py.serve.wanted_answer import WantedAnswer

_LOG: Final = logging.getLogger("edgec.serve")
_DONE: Final = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Prepared:
    """A request that is ready for its turn: what is to be computed, and how each answer is written.

    ``each``: answers of one prompt; ``usage``: makes a stream's last chunk of all answers; None: it has none.
    """

    offer: ServedModel
    wanted: Sequence[WantedAnswer]
    shapes: Sequence[AnswerShape]
    each: int = 1
    stream: bool = False
    usage: Callable[[Sequence[Generation]], dict[str, Any]] | None = None


async def answered(request: Request, limits: ServeLimits, closing: Closing, prepared: Prepared) -> Any:
    """The response to a request that is ready: computed in its turn, and stopped when its client goes."""
    hosted, adapter = prepared.offer.hosted, prepared.offer.adapter
    group = AnswerGroup.begun([partial(hosted.answer, each, adapter) for each in prepared.wanted])
    watcher, streamed = asyncio.create_task(until_gone(request, group.stop)), False
    try:
        closing.add(group)
        if not prepared.stream:
            return await _whole(group, prepared)
        # An error before the first piece has a status of its own.
        reader = aiter(group.read())
        first = await anext(reader, None)
        streamed = True
        return EventStream(group.stop, _events(group, prepared, first, reader), watcher, limits.send_seconds)
    finally:
        if not streamed:
            group.stop()
            watcher.cancel()


class EventStream:
    """A response of server-sent events, which ends with its answer or with its client."""

    def __init__(
        self, stop: Callable[[], None], events: AsyncIterator[bytes], watcher: asyncio.Task[None], send_seconds: float
    ) -> None:
        """Send ``events``, and ``stop`` what makes them where they cannot be sent."""
        self._stop, self._events, self._watcher, self._seconds = stop, events, watcher, send_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, as ASGI wants it."""
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async for event in self._events:
                async with asyncio.timeout(self._seconds):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, OSError):
            return  # The client reads no more: whoever closes the connection does the rest.
        finally:
            self._stop()
            self._watcher.cancel()


async def _events(
    group: AnswerGroup, prepared: Prepared, first: AnswerPart | None, rest: AsyncIterator[AnswerPart]
) -> AsyncIterator[bytes]:
    """The events of a request's answers; an error on the way is the last one."""
    shapes = prepared.shapes
    event = _named_event if shapes[0].named else _event
    try:
        async for chunk in _every_chunk(group, prepared, first, rest):
            yield event(chunk)
    except Gone:
        return
    except Exception as error:
        if not isinstance(error, EdgecError):
            _LOG.exception("an answer failed")
        yield event(shapes[0].fault(as_body(error)[1]))
        return
    if prepared.usage is not None:
        yield event(prepared.usage(group.results))
    if not shapes[0].named:
        yield _DONE


async def _every_chunk(
    group: AnswerGroup, prepared: Prepared, first: AnswerPart | None, rest: AsyncIterator[AnswerPart]
) -> AsyncIterator[dict[str, Any]]:
    for shape in prepared.shapes:
        for chunk in shape.first():
            yield chunk
    for chunk in _chunks(group, prepared, first) if first is not None else ():
        yield chunk
    async for part in rest:
        for chunk in _chunks(group, prepared, part):
            yield chunk


def _chunks(group: AnswerGroup, prepared: Prepared, part: AnswerPart) -> Iterator[dict[str, Any]]:
    """The chunks of a part of the answers."""
    place, written = part
    if written is not None:
        return prepared.shapes[place].chunks(written)
    return prepared.shapes[place].last(group.result(place))


async def _whole(group: AnswerGroup, prepared: Prepared) -> JSONResponse:
    chosen, made = await group.whole(), group.results
    answers = [shape.whole(one, tokens) for shape, one, tokens in zip(prepared.shapes, made, chosen, strict=True)]
    return JSONResponse(joined(answers, made, prepared.each))


def _event(held: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(held, ensure_ascii=False)}\n\n".encode()


def _named_event(held: dict[str, Any]) -> bytes:
    return f"event: {held['type']}\n".encode() + _event(held)
