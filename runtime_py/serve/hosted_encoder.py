"""A sentence encoder that is served: the vectors of one request after the other, in a thread of their own."""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Any

from edgec.runtime_py.engines.executor import Array
from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.bodies import EmbeddingBody
from edgec.runtime_py.serve.hosted import Hosted
from edgec.runtime_py.serve.limits import ServeLimits
from edgec.runtime_py.serve.problems import out_of_time, too_many, unsupported


@dataclass(frozen=True)
class Vectors:
    """The vectors of a request's texts, float32 [D] each, and how many tokens were read."""

    vectors: tuple[Array, ...]
    tokens: int


class HostedEncoder:
    """A loaded sentence encoder with its thread.

    Attributes:
        name: by which requests name it.
        model: the loaded bundle.
        created: when it was loaded, seconds since 1970.
    """

    def __init__(self, model: Model, limits: ServeLimits) -> None:
        """Host a sentence encoder.

        Raises:
            InputError: E158, it has no tokenizer.
        """
        self.model, self.name, self.created = model, model.bundle.manifest.name, int(time.time())
        assert model.embeds
        assert model.tokenizer is not None
        self._limits, self._waiting = limits, 0
        self._thread = ThreadPoolExecutor(1, "edgec-serve")

    @property
    def waiting(self) -> int:
        """Requests that are computed or wait for their turn."""
        return self._waiting

    def check(self, body: EmbeddingBody) -> None:
        """Refuse what no text is needed to refuse.

        Raises:
            RequestError: E633, another number of dimensions than the model's was asked for.
        """
        if body.dimensions not in (None, self.model.vector_width):
            raise unsupported("dimensions", f"the model's vectors have {self.model.vector_width} values")

    async def embed(
        self, texts: Sequence[str | Sequence[int]], stopped: Event, prompt_name: str | None = None
    ) -> Vectors:
        """The vectors of some texts; to be called in the server's loop.

        Args:
            texts: at least one; text, or token ids.
            stopped: set where nobody waits any more: the rest is not computed.
            prompt_name: as for `Model.embed`.

        Raises:
            InputError: E126, E127, E152, E158 and E643 as `Model.embed`.
            RequestError: E637, it took too long; E638, too many wait.
        """
        if self._waiting > self._limits.waiting:
            raise too_many(self._limits.waiting)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, self._computed, texts, stopped, prompt_name
            )
        finally:
            self._waiting -= 1

    def _computed(self, texts: Sequence[str | Sequence[int]], stopped: Event, prompt_name: str | None) -> Vectors:
        deadline, vectors = time.monotonic() + self._limits.answer_seconds, []
        tokens = sum(self.model.embedded_tokens(text, prompt_name=prompt_name) for text in texts)
        for text in texts:
            if stopped.is_set():
                break
            if time.monotonic() > deadline:
                raise out_of_time(self._limits.answer_seconds)
            vectors.append(self.model.embed([text], prompt_name=prompt_name)[0])
        return Vectors(tuple(vectors), tokens)

    def close(self) -> None:
        """Let the thread end once it has nothing to do; requests that wait are dropped."""
        self._thread.shutdown(wait=False, cancel_futures=True)


Served = Hosted | HostedEncoder
"""A bundle of either kind that is served."""


def embeddings_object(name: str, made: Vectors, body: EmbeddingBody) -> dict[str, Any]:
    """The answer of /v1/embeddings, as OpenAI's protocol writes it."""
    packed = body.encoding_format == "base64"
    values = [b64encode(each.astype("<f4").tobytes()).decode() if packed else each.tolist() for each in made.vectors]
    data = [{"object": "embedding", "index": i, "embedding": each} for i, each in enumerate(values)]
    usage = {"prompt_tokens": made.tokens, "total_tokens": made.tokens}
    return {"object": "list", "model": name, "data": data, "usage": usage}
