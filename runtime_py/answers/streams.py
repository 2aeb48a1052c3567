"""Generated text as an iterator of pieces, for loops and for asyncio; closing it stops the generation."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Self, Unpack

from edgec.quiet import quiet
from edgec.runtime_py.answers.generation_arguments import GenerationArguments
from edgec.runtime_py.answers.request_options import GenerateOptions, TextStreamOptions
from edgec.runtime_py.generation.generate import Generation, PieceT, ResultT
from edgec.runtime_py.media.image_file import ImageSource
from edgec.runtime_py.media.sound_file import SoundSource
from edgec.runtime_py.speculation.choice import OFF

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle


class Stream(Iterator[PieceT], Generic[PieceT, ResultT]):
    """Pieces of what is generated, each computed when it is asked for: of a text, or of a message's parts.

    Leaving the loop early, or ``close()``, stops the generation; the session is then free for the next text, and a
    conversation stays as it was.

    Attributes:
        result: the whole with its timings, once the last piece was given; None before, and after ``close()``.
    """

    def __init__(self, pieces: Generator[PieceT, None, ResultT]) -> None:
        self._pieces = pieces
        self.result: ResultT | None = None

    def __next__(self) -> PieceT:
        """The next piece; of a text never empty."""
        try:
            return next(self._pieces)
        except StopIteration as end:
            self.result = self.result or end.value
            raise

    def close(self) -> None:
        """Stop the generation; nothing happens where it has ended."""
        self._pieces.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<edgec Stream: {self.result!r}>" if self.result else "<edgec Stream>"


class AsyncStream(AsyncIterator[PieceT], Generic[PieceT, ResultT]):
    """A Stream for ``async for``: every piece is computed in one thread of its own, so that the event loop goes on.

    A task that is cancelled while it waits for a piece stops the generation after the token that is being computed.

    Attributes:
        stream: the stream beneath, with its ``result``.
    """

    def __init__(self, stream: Stream[PieceT, ResultT]) -> None:
        self.stream = stream
        self._thread, self._stopped = ThreadPoolExecutor(1, "edgec-stream"), False

    @property
    def result(self) -> ResultT | None:
        """The whole result with its measurements, once the stream has ended; None before."""
        return self.stream.result

    async def __anext__(self) -> PieceT:
        """The next piece, as `Stream` gives it."""
        if self._stopped:
            raise StopAsyncIteration
        try:
            piece = await asyncio.get_running_loop().run_in_executor(self._thread, next, self.stream, None)
        except BaseException:
            self._stop()
            raise
        if piece is None:
            self._stop()
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Stop the generation, after the token that is being computed."""
        self._stop()

    def _stop(self) -> None:
        if not self._stopped:
            # The thread has one worker: closing waits for the step that is running there.
            self._thread.submit(self.stream.close)
            self._thread.shutdown(wait=False)
        self._stopped = True

    async def whole(self) -> ResultT:
        """Take every piece, and give the result; cancelling the task stops the generation."""
        async with self:
            async for _ in self:
                pass
        assert self.result is not None
        return self.result

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


class Streaming(ABC):
    """The ways to take a text piece by piece, for a model that makes pieces."""

    @abstractmethod
    def _pieces(self, asked: GenerationArguments) -> Generator[str, None, Generation]:
        """Check the arguments, and begin a text at the first piece that is asked for."""

    @quiet()
    def stream(
        self,
        prompt: str | Sequence[int],
        *,
        template: bool = False,
        speculate: str | Path | Bundle = OFF,
        resume: bool = False,
        language: str | None = None,
        images: Sequence[ImageSource] = (),
        audio: Sequence[SoundSource] = (),
        **options: Unpack[GenerateOptions],
    ) -> Stream[str, Generation]:
        """The text of ``generate`` piece by piece: ``for piece in model.stream("Once upon a time"): ...``.

        Takes the arguments of ``generate``; wrong ones are refused at once. Leaving the loop stops the generation;
        other threads wait until it ends.

        Raises:
            InputError: as ``generate``; E179, this thread has another stream of this model open.
        """
        asked = GenerationArguments(prompt, template, speculate, resume, language, images, audio, options)
        return Stream(self._pieces(asked))

    def stream_async(
        self, prompt: str | Sequence[int], **options: Unpack[TextStreamOptions]
    ) -> AsyncStream[str, Generation]:
        """The same for ``async for``; takes the arguments of ``stream``."""
        return AsyncStream(self.stream(prompt, **options))

    async def generate_async(self, prompt: str | Sequence[int], **options: Unpack[TextStreamOptions]) -> Generation:
        """``generate`` in a thread of its own, so that the event loop goes on; cancelling the task stops it."""
        return await self.stream_async(prompt, **options).whole()
