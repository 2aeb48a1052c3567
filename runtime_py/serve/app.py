"""The server's paths: each request is checked, answered in its turn, and stopped when its client goes."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from threading import Event
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from edgec.errors import EdgecError
from edgec.runtime_py.serve.adapters import ServedModel, served_models
from edgec.runtime_py.serve.bodies import BodyT, ChatBody, CompletionBody, EmbeddingBody, GenerationBody, read_body
from edgec.runtime_py.serve.hosted import Answer, Gone, Hosted, Written
from edgec.runtime_py.serve.hosted_encoder import HostedEncoder, Served, embeddings_object
from edgec.runtime_py.serve.limits import ServeLimits
from edgec.runtime_py.serve.preparing import Preparing, until_gone
from edgec.runtime_py.serve.probabilities import ChosenToken
from edgec.runtime_py.serve.problems import (
    as_body,
    foreign_host,
    malformed_body,
    no_such_model,
    no_such_path,
    too_large,
    wrong_key,
    wrong_kind,
)
from edgec.runtime_py.serve.shapes import AnswerShape, MessageShape, TextShape
from edgec.runtime_py.serve.wanted_answer import WantedAnswer, wanted_message, wanted_text

_LOG: Final = logging.getLogger("edgec.serve")
# Of the header Host itself: where Starlette cannot read it, it takes the server's own address instead.
_LOCAL: Final = re.compile(r"(127(\.[0-9]{1,3}){3}|localhost|\[::1\])(:[0-9]*)?", re.IGNORECASE)
_DONE: Final = b"data: [DONE]\n\n"
PreparedAnswer = tuple[ServedModel, WantedAnswer, AnswerShape]


class Server:
    """The application over some hosted bundles."""

    def __init__(self, hosted: Sequence[Served], limits: ServeLimits, key: str | None, local: bool) -> None:
        """Serve bundles.

        Args:
            hosted: at least one, of different names.
            limits: what one request may take.
            key: the key that requests must have; None for none.
            local: only requests for this machine by its own names are answered.
        """
        self._hosted = {one.name: one for one in hosted}
        writers = [one for one in hosted if isinstance(one, Hosted)]
        self._offers = {offer.name: offer for one in writers for offer in served_models(one)}
        self._limits, self._key, self._local = limits, key, local
        self._preparing = Preparing(limits)

    def app(self) -> Starlette:
        """The application for an ASGI server."""
        routes = [
            Route("/health", self._guarded(self._health)),
            Route("/v1/models", self._guarded(self._models)),
            Route("/v1/models/{name:path}", self._guarded(self._model)),
            Route("/v1/chat/completions", self._guarded(self._chat), methods=["POST"]),
            Route("/v1/completions", self._guarded(self._completions), methods=["POST"]),
            Route("/v1/embeddings", self._guarded(self._embeddings), methods=["POST"]),
        ]
        handlers: Mapping[Any, Any] = {404: _nothing_here, 405: _nothing_here}
        return Starlette(routes=routes, exception_handlers=handlers)

    def _guarded(self, endpoint: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Any]]:
        """The endpoint after the checks of host and key, its errors as answers."""

        async def guarded(request: Request) -> Any:
            try:
                self._check(request)
                return await endpoint(request)
            except EdgecError as error:
                return problem(error)
            except (ClientDisconnect, Gone):
                return JSONResponse({}, status_code=499)
            except Exception as error:
                _LOG.exception("a request failed")
                return problem(error)

        return guarded

    def _check(self, request: Request) -> None:
        host = request.headers.get("host", "")
        if self._local and not _LOCAL.fullmatch(host):
            raise foreign_host(host)
        given = request.headers.get("authorization", "").encode("latin-1", "replace")
        if self._key is not None and not secrets.compare_digest(given, f"Bearer {self._key}".encode()):
            raise wrong_key()

    async def _health(self, _: Request) -> JSONResponse:
        writers = {name: one for name, one in self._hosted.items() if isinstance(one, Hosted)}
        waiting = {name: one.waiting for name, one in self._hosted.items()}
        sessions = {name: one.desk.sessions for name, one in writers.items()}
        return JSONResponse({"status": "ok", "waiting": waiting, "sessions": sessions})

    async def _models(self, _: Request) -> JSONResponse:
        named = dict.fromkeys((*self._hosted, *self._offers))
        return JSONResponse({"object": "list", "data": [_described(name, self._named(name)) for name in named]})

    async def _model(self, request: Request) -> JSONResponse:
        name = request.path_params["name"]
        return JSONResponse(_described(name, self._named(name)))

    def _named(self, name: str) -> Served:
        """The bundle that a model's name stands for."""
        if name in self._offers:
            return self._offers[name].hosted
        if name not in self._hosted:
            raise no_such_model(name, list(dict.fromkeys((*self._hosted, *self._offers))))
        return self._hosted[name]

    def _offer(self, name: str) -> ServedModel:
        if self._named(name) and name not in self._offers:
            raise wrong_kind(name, "/v1/embeddings")
        return self._offers[name]

    async def _embeddings(self, request: Request) -> Any:
        body = await self._body(request, EmbeddingBody)
        hosted, texts, stopped = self._named(body.model), body.texts(), Event()
        if not isinstance(hosted, HostedEncoder):
            raise wrong_kind(body.model, "/v1/chat/completions or /v1/completions")
        hosted.check(body)
        watcher = asyncio.create_task(until_gone(request, stopped.set))
        try:
            made = await hosted.embed(texts, stopped, body.prompt_name)
        finally:
            stopped.set()
            watcher.cancel()
        return JSONResponse(embeddings_object(hosted.name, made, body))

    async def _chat(self, request: Request) -> Any:
        body = await self._body(request, ChatBody)
        offer = self._offer(body.model)
        wanted = await self._preparing.made(request, body, partial(wanted_message, offer.hosted.model, body))
        shape = MessageShape(offer.name, offer.hosted.texts, wanted.top_logprobs is not None)
        return await self._answered(request, body, (offer, wanted, shape))

    async def _completions(self, request: Request) -> Any:
        body = await self._body(request, CompletionBody)
        offer = self._offer(body.model)
        wanted = await self._preparing.made(request, body, partial(wanted_text, offer.hosted.model, body))
        shape = TextShape(offer.name, offer.hosted.texts, wanted.top_logprobs is not None)
        return await self._answered(request, body, (offer, wanted, shape))

    async def _body(self, request: Request, kind: type[BodyT]) -> BodyT:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise malformed_body("the header Content-Type is not application/json")
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                raw = await _limited(request, self._limits.body_bytes)
        except TimeoutError as cause:
            raise malformed_body(f"it did not arrive within {self._limits.body_seconds:g} s") from cause
        return await run_in_threadpool(read_body, raw, kind)

    async def _answered(self, request: Request, body: GenerationBody, prepared: PreparedAnswer) -> Any:
        offer, wanted, shape = prepared
        answer = offer.hosted.answer(wanted, offer.adapter)
        watcher, streamed = asyncio.create_task(until_gone(request, answer.stop)), False
        try:
            if not body.stream:
                return await _whole(answer, shape)
            # An error before the first piece has a status of its own.
            reader = aiter(answer.read())
            first = await anext(reader, None)
            usage = body.stream_options is not None and body.stream_options.include_usage
            streamed = True
            return EventStream(answer, _events(answer, shape, first, reader, usage), watcher, self._limits.send_seconds)
        finally:
            if not streamed:
                answer.stop()
                watcher.cancel()


class EventStream:
    """A response of server-sent events, which ends with its answer or with its client."""

    def __init__(
        self, answer: Answer, events: AsyncIterator[bytes], watcher: asyncio.Task[None], send_seconds: float
    ) -> None:
        """Send ``events``, and stop ``answer`` where they cannot be sent."""
        self._answer, self._events, self._watcher, self._seconds = answer, events, watcher, send_seconds

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
            self._answer.stop()
            self._watcher.cancel()


async def _events(
    answer: Answer, shape: AnswerShape, first: Written | None, rest: AsyncIterator[Written], usage: bool
) -> AsyncIterator[bytes]:
    """The events of an answer; an error on the way is the last one."""
    for chunk in shape.first():
        yield _event(chunk)
    try:
        for chunk in shape.chunks(first) if first is not None else ():
            yield _event(chunk)
        async for written in rest:
            for chunk in shape.chunks(written):
                yield _event(chunk)
    except Gone:
        return
    except Exception as error:
        if not isinstance(error, EdgecError):
            _LOG.exception("an answer failed")
        yield _event(as_body(error)[1])
        return
    assert answer.result is not None
    yield _event(shape.last(answer.result))
    if usage:
        yield _event(shape.usage(answer.result))
    yield _DONE


async def _whole(answer: Answer, shape: AnswerShape) -> JSONResponse:
    chosen: list[ChosenToken] = []
    async for written in answer.read():
        chosen += written.chosen
    assert answer.result is not None
    return JSONResponse(shape.whole(answer.result, chosen))


async def _limited(request: Request, most: int) -> bytes:
    """A request's body of at most so many bytes. Raises RequestError E635."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise too_large(most)
        parts.append(part)
    return b"".join(parts)


def problem(error: Exception) -> JSONResponse:
    """An error as an answer."""
    status, body = as_body(error)
    return JSONResponse(body, status_code=status, headers={"WWW-Authenticate": "Bearer"} if status == 401 else None)


def _event(held: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(held, ensure_ascii=False)}\n\n".encode()


def _described(name: str, one: Served) -> dict[str, Any]:
    """A model as OpenAI's API describes it; of an adapter also the bundle that it changes."""
    parent = {} if name == one.name else {"parent": one.name}
    return {"id": name, "object": "model", "created": one.created, "owned_by": "edgec", **parent}


async def _nothing_here(request: Request, _: Exception) -> JSONResponse:
    return problem(no_such_path(request.url.path))
