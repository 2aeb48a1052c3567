"""The paths of models that write no answers to messages: vectors, ranked documents, transcripts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse

from edgec.errors import EdgecError
from edgec.runtime_py.encoder_decoder.transcription import SpeechSegment, Transcript
from edgec.runtime_py.serve.adapters import ServedModel
from edgec.runtime_py.serve.answering import EventStream
from edgec.runtime_py.serve.audio_body import (
    SoundBody,
    TranscriptionBody,
    last_event,
    segment_event,
    sound_event,
    transcript_response,
)
from edgec.runtime_py.serve.bodies import EmbeddingBody
from edgec.runtime_py.serve.hosted_encoder import HostedEncoder, embeddings_object
from edgec.runtime_py.serve.hosted_in_turns import HostedInTurns
from edgec.runtime_py.serve.hosted_listener import HostedListener
from edgec.runtime_py.serve.hosting import Served
from edgec.runtime_py.serve.limits import ServeLimits
from edgec.runtime_py.serve.preparing import Preparing, until_gone
from edgec.runtime_py.serve.problems import as_body, wrong_kind
from edgec.runtime_py.serve.request_bodies import RequestBodies
from edgec.runtime_py.serve.rerank import HostedRanker, RerankBody, judged_prompts, ranked_by_decoder, rerank_object
from edgec.runtime_py.serve.stopping import Closing, Gone, WorkStop

_LOG: Final = logging.getLogger("edgec.serve")
_TRANSCRIBE: Final = "transcribe"
_TRANSLATE: Final = "translate"
HostedT = TypeVar("HostedT", bound=HostedInTurns)


@dataclass(frozen=True)
class OtherModels:
    """The endpoints of these paths.

    Attributes:
        named: the bundle of a model's name.
        offer: the same of a decoder, with its adapter.
        bodies: reads bodies of requests.
        preparing: what is done before a decoder's turn.
        closing: what ends when the server stops.
        limits: the server's.
    """

    named: Callable[[str], Served]
    offer: Callable[[str], ServedModel]
    bodies: RequestBodies
    preparing: Preparing
    closing: Closing
    limits: ServeLimits

    async def embeddings(self, request: Request) -> JSONResponse:
        """The vectors of texts."""
        body = await self.bodies.json(request, EmbeddingBody)
        texts, hosted = body.texts(), self._of_kind(body.model, HostedEncoder)
        hosted.check(body)
        with self._stop(request) as stop:
            made = await hosted.embed(texts, stop, body.prompt_name)
        return JSONResponse(embeddings_object(hosted.name, made, body))

    async def rerank(self, request: Request) -> JSONResponse:
        """Documents in the order in which they answer a query."""
        body = await self.bodies.json(request, RerankBody)
        hosted = self.named(body.model)
        if isinstance(hosted, HostedRanker):
            with self._stop(request) as stop:
                made = await hosted.rank(body.query, body.texts(), stop)
        else:
            offer = self.offer(body.model)
            prompts = await self.preparing.made(request, None, partial(judged_prompts, offer, body))
            made = await ranked_by_decoder(request, self.closing, offer, prompts)
        return JSONResponse(rerank_object(body.model, body, made))

    async def transcriptions(self, request: Request) -> Any:
        """What is said in a sound."""
        body = await self.bodies.form(request, TranscriptionBody)
        body.check()
        return await self._transcript(request, body, _TRANSCRIBE, body.stream)

    async def translations(self, request: Request) -> Any:
        """The same in English."""
        return await self._transcript(request, await self.bodies.form(request, SoundBody), _TRANSLATE)

    async def _transcript(self, request: Request, body: SoundBody, task: str, stream: bool = False) -> Any:
        hosted = self._of_kind(body.model, HostedListener)
        if not stream:
            with self._stop(request) as stop:
                made = await hosted.transcribe(body, task, stop)
            return transcript_response(made, body.response_format, task, body.temperature)
        stop = WorkStop()
        self.closing.add(stop)
        watcher = asyncio.create_task(until_gone(request, stop.set))
        reader = hosted.parts(body, task, stop)
        try:
            first = await anext(reader)  # An error before the first piece has a status of its own.
        except BaseException:
            watcher.cancel()
            raise
        return EventStream(stop.set, _sound_events(first, reader), watcher, self.limits.send_seconds)

    def _of_kind(self, name: str, kind: type[HostedT]) -> HostedT:
        hosted = self.named(name)
        if not isinstance(hosted, kind):
            raise wrong_kind(name, hosted.path)
        return hosted

    @contextmanager
    def _stop(self, request: Request) -> Iterator[WorkStop]:
        """What ends the work of a request once its client goes or the server stops."""
        stop = WorkStop()
        self.closing.add(stop)
        watcher = asyncio.create_task(until_gone(request, stop.set))
        try:
            yield stop
        finally:
            stop.set()
            watcher.cancel()


async def _sound_events(
    first: SpeechSegment | Transcript, rest: AsyncIterator[SpeechSegment | Transcript]
) -> AsyncIterator[bytes]:
    """The events of a transcript; an error on the way is the last one."""
    try:
        yield last_event(first) if isinstance(first, Transcript) else segment_event(first, True)
        async for part in rest:
            yield last_event(part) if isinstance(part, Transcript) else segment_event(part, False)
    except Gone:
        return
    except Exception as error:
        if not isinstance(error, EdgecError):
            _LOG.exception("a transcript failed")
        yield sound_event(as_body(error)[1])
