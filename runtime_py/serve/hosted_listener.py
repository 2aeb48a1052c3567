"""A model that writes what is said in a sound: one sound after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from edgec.runtime_py.encoder_decoder.transcription import SpeechSegment, Transcript
from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.audio_body import SoundBody, TranscriptionBody
from edgec.runtime_py.serve.hosted_in_turns import HostedInTurns
from edgec.runtime_py.serve.limits import ServeLimits
from edgec.runtime_py.serve.stopping import WorkStop
from edgec.runtime_py.structured.patience import Check, while_wanted

ShowSpeech = Callable[[SpeechSegment], None]


class HostedListener(HostedInTurns):
    """A loaded encoder-decoder that reads sound, with its thread."""

    path = "/v1/audio/transcriptions"

    def __init__(self, model: Model, limits: ServeLimits) -> None:
        """Host a model; no more sounds wait than may be in memory. Raises as `HostedInTurns`."""
        super().__init__(model, replace(limits, waiting=min(limits.waiting, limits.uploads)))

    async def transcribe(
        self, body: SoundBody, task: str, stopped: WorkStop, show: ShowSpeech | None = None
    ) -> Transcript:
        """What is said in a sound; to be called in the server's loop.

        Args:
            body: with a WAV file.
            task: ``transcribe`` or ``translate``.
            stopped: set where nobody waits any more: the rest is not computed.
            show: called in the bundle's thread with each segment as soon as it is certain.

        Raises:
            InputError: E156, E177 and E178 as `Model.transcribe`; else as `HostedInTurns.done`.
        """
        return await self.done(partial(self._written, body, task, show), stopped)

    def _written(self, body: SoundBody, task: str, show: ShowSpeech | None, check: Check) -> Transcript:
        language = body.language if isinstance(body, TranscriptionBody) else None
        with while_wanted(check):
            return self.model.transcribe(
                body.file, language=language, task=task, stream=show, temperature=body.temperature
            )

    async def parts(self, body: SoundBody, task: str, stopped: WorkStop) -> AsyncIterator[SpeechSegment | Transcript]:
        """The segments of a transcript as they come, and at last the whole; raises as `transcribe`."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[SpeechSegment | None]()

        def show(segment: SpeechSegment) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody reads any more
                loop.call_soon_threadsafe(queue.put_nowait, segment)

        made = asyncio.create_task(self.transcribe(body, task, stopped, show))
        made.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (segment := await queue.get()) is not None:
                yield segment
            yield await made
        finally:
            stopped.set()
            made.cancel()
