"""The server's paths: each request is checked, answered in its turn, and stopped when its client goes."""

from __future__ import annotations

import logging
import re
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from edgec.bundle.encoding import token_ids
from edgec.errors import EdgecError
from edgec.runtime_py.generation.generate import Generation
from edgec.runtime_py.serve.adapters import ServedModel, served_models
from edgec.runtime_py.serve.answering import Prepared, answered
from edgec.runtime_py.serve.anthropic_body import AnthropicBody, chat_of_blocks
from edgec.runtime_py.serve.anthropic_shape import BlockShape, blocks_error
from edgec.runtime_py.serve.bodies import ChatBody, CompletionBody, GenerationBody
from edgec.runtime_py.serve.hosted import Hosted
from edgec.runtime_py.serve.hosting import Served, takes_media
from edgec.runtime_py.serve.kept_responses import KeptResponses
from edgec.runtime_py.serve.limits import ServeLimits
from edgec.runtime_py.serve.metrics import CONTENT_TYPE, metrics_text
from edgec.runtime_py.serve.other_models import OtherModels
from edgec.runtime_py.serve.preparing import Preparing
from edgec.runtime_py.serve.problems import (
    as_body,
    foreign_host,
    malformed_body,
    no_such_model,
    no_such_path,
    wrong_key,
    wrong_kind,
)
from edgec.runtime_py.serve.request_bodies import RequestBodies
from edgec.runtime_py.serve.response_body import ResponseBody, answer_again, chat_of, messages_of
from edgec.runtime_py.serve.response_shape import ResponseShape
from edgec.runtime_py.serve.shapes import MessageShape, TextShape
from edgec.runtime_py.serve.stopping import Closing, Gone
from edgec.runtime_py.serve.wanted_answer import WantedAnswer, several, wanted_message, wanted_texts

_LOG: Final = logging.getLogger("edgec.serve")
ErrorForm = Callable[[int, dict[str, Any]], dict[str, Any]]
Endpoint = Callable[[Request], Awaitable[Any]]
# Of the header Host itself: where Starlette cannot read it, it takes the server's own address instead.
_LOCAL: Final = re.compile(r"(127(\.[0-9]{1,3}){3}|localhost|\[::1\])(:[0-9]*)?", re.IGNORECASE)


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
        self._preparing, self._kept, self.closing = Preparing(limits), KeptResponses(), Closing()
        self._bodies, self._requests = RequestBodies(limits, any(map(takes_media, hosted))), Counter[tuple[str, int]]()

    def app(self) -> Starlette:
        """The application for an ASGI server."""
        others = OtherModels(self._named, self._offer, self._bodies, self._preparing, self.closing, self._limits)
        routes = [
            self._route("/health", self._health),
            self._route("/metrics", self._metrics),
            self._route("/v1/models", self._models),
            self._route("/v1/models/{name:path}", self._model),
            self._route("/v1/chat/completions", self._chat, "POST"),
            self._route("/v1/responses", self._responses, "POST"),
            self._route("/v1/responses/{number}", self._kept_response, "GET", "DELETE"),
            self._route("/v1/messages", self._messages, "POST", told=blocks_error),
            self._route("/v1/messages/count_tokens", self._counted, "POST", told=blocks_error),
            self._route("/v1/completions", self._completions, "POST"),
            self._route("/v1/embeddings", others.embeddings, "POST"),
            self._route("/v1/rerank", others.rerank, "POST"),
            self._route("/v2/rerank", others.rerank, "POST"),
            self._route("/v1/audio/transcriptions", others.transcriptions, "POST"),
            self._route("/v1/audio/translations", others.translations, "POST"),
        ]
        handlers: Mapping[Any, Any] = {404: _nothing_here, 405: _nothing_here}
        return Starlette(routes=routes, exception_handlers=handlers)

    def _route(self, path: str, endpoint: Endpoint, *methods: str, told: ErrorForm = lambda _, held: held) -> Route:
        """A path whose endpoint comes after the checks of host and key; ``told`` makes the answers of errors."""

        async def guarded(request: Request) -> Any:
            try:
                self._check(request)
                with self._bodies.place(request):
                    return await endpoint(request)
            except EdgecError as error:
                return problem(error, told)
            except (ClientDisconnect, Gone):
                return JSONResponse({}, status_code=499)
            except Exception as error:
                _LOG.exception("a request failed")
                return problem(error, told)

        async def counted(request: Request) -> Any:
            made = await guarded(request)
            self._requests[path, getattr(made, "status_code", 200)] += 1
            return made

        return Route(path, counted, methods=list(methods) or ["GET"])

    def _check(self, request: Request) -> None:
        host = request.headers.get("host", "")
        if self._local and not _LOCAL.fullmatch(host):
            raise foreign_host(host)
        given = request.headers.get("authorization", "").removeprefix("Bearer ") or request.headers.get("x-api-key", "")
        if self._key is not None and not secrets.compare_digest(given.encode("latin-1", "replace"), self._key.encode()):
            raise wrong_key()

    async def _health(self, _: Request) -> JSONResponse:
        writers = {name: one for name, one in self._hosted.items() if isinstance(one, Hosted)}
        waiting = {name: one.waiting for name, one in self._hosted.items()}
        sessions = {name: one.slots.sessions for name, one in writers.items()}
        return JSONResponse({"status": "ok", "waiting": waiting, "sessions": sessions})

    async def _metrics(self, _: Request) -> PlainTextResponse:
        text = metrics_text(list(self._hosted.values()), self._requests)
        return PlainTextResponse(text, headers={"content-type": CONTENT_TYPE})

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
            raise wrong_kind(name, self._named(name).path)
        return self._offers[name]

    async def _chat(self, request: Request) -> Any:
        body = await self._bodies.json(request, ChatBody)
        offer = self._offer(body.model)
        wanted = await self._preparing.made(request, body, partial(wanted_message, offer.hosted.model, body))
        shape = MessageShape(offer.name, offer.hosted.texts, wanted.top_logprobs is not None, each=body.n)
        return await answered(
            request, self._limits, self.closing, _choices(offer, several(wanted, body.n), shape, body)
        )

    async def _responses(self, request: Request) -> Any:
        body = await self._bodies.json(request, ResponseBody)
        offer = self._offer(body.model)
        model = offer.hosted.model
        before = self._kept.get(body.previous_response_id).messages if body.previous_response_id else ()
        chat = chat_of(body, before)
        wanted = await self._preparing.made(request, chat, partial(wanted_message, model, chat))

        def keep(held: dict[str, Any], made: Generation) -> None:
            if body.store:
                self._kept.keep(held, [*before, *messages_of(body), answer_again(held, made)])

        shape = ResponseShape(offer.name, body, lambda text: len(token_ids(model.tokenizer, text)), keep)
        return await answered(
            request, self._limits, self.closing, Prepared(offer, [wanted], [shape], stream=body.stream)
        )

    async def _answered(self, request: Request, prepared: Prepared) -> Any:
        return await answered(request, self._limits, self.closing, prepared)

    async def _kept_response(self, request: Request) -> JSONResponse:
        number = request.path_params["number"]
        if request.method == "DELETE":
            self._kept.forget(number)
            return JSONResponse({"id": number, "object": "response.deleted", "deleted": True})
        return JSONResponse(self._kept.get(number).held)

    async def _messages(self, request: Request) -> Any:
        body = await self._bodies.json(request, AnthropicBody)
        if body.max_tokens is None:
            raise malformed_body("it is missing", "max_tokens")
        offer, chat = self._offer(body.model), chat_of_blocks(body)
        wanted = await self._preparing.made(request, chat, partial(wanted_message, offer.hosted.model, chat))
        shape = BlockShape(offer.name, len(wanted.prompt))
        return await answered(
            request, self._limits, self.closing, Prepared(offer, [wanted], [shape], stream=body.stream)
        )

    async def _counted(self, request: Request) -> JSONResponse:
        body = await self._bodies.json(request, AnthropicBody)
        chat = chat_of_blocks(body)
        job = partial(wanted_message, self._offer(body.model).hosted.model, chat)
        return JSONResponse({"input_tokens": len((await self._preparing.made(request, chat, job)).prompt)})

    async def _completions(self, request: Request) -> Any:
        body = await self._bodies.json(request, CompletionBody)
        offer = self._offer(body.model)
        wanted = await self._preparing.made(request, body, partial(wanted_texts, offer.hosted.model, body))
        shape = TextShape(offer.name, offer.hosted.texts, body.logprobs is not None, each=body.n)
        return await self._answered(request, _choices(offer, wanted, shape, body))


def problem(error: Exception, told: ErrorForm = lambda _, held: held) -> JSONResponse:
    """An error as an answer; ``told`` makes another object of its status and OpenAI's."""
    status, body = as_body(error)
    return JSONResponse(
        told(status, body), status_code=status, headers={"WWW-Authenticate": "Bearer"} if status == 401 else None
    )


def _described(name: str, one: Served) -> dict[str, Any]:
    """A model as OpenAI's API describes it; of an adapter also the bundle that it changes."""
    parent = {} if name == one.name else {"parent": one.name}
    return {"id": name, "object": "model", "created": one.created, "owned_by": "edgec", **parent}


async def _nothing_here(request: Request, _: Exception) -> JSONResponse:
    return problem(no_such_path(request.url.path))


def _choices(
    offer: ServedModel, wanted: Sequence[WantedAnswer], shape: MessageShape | TextShape, body: GenerationBody
) -> Prepared:
    """A request of OpenAI's older paths: every answer is a choice of one object."""
    shapes = [replace(shape, index=place) for place in range(len(wanted))]
    told = body.stream_options is not None and body.stream_options.include_usage
    return Prepared(offer, wanted, shapes, body.n, body.stream, shape.usage if told else None)
