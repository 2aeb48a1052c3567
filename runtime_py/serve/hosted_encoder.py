"""A sentence encoder that is served: the vectors of one request after the other."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.runtime_py.engines.executor import Array
from edgec.runtime_py.serve.bodies import EmbeddingBody
from edgec.runtime_py.serve.hosted_in_turns import HostedInTurns
from edgec.runtime_py.serve.problems import unsupported
from edgec.runtime_py.serve.stopping import WorkStop
from edgec.runtime_py.structured.patience import Check


@dataclass(frozen=True)
class Vectors:
    """The vectors of a request's texts, float32 [D] each, and how many tokens were read."""

    vectors: tuple[Array, ...]
    tokens: int


class HostedEncoder(HostedInTurns):
    """A loaded sentence encoder with its thread."""

    path = "/v1/embeddings"

    def check(self, body: EmbeddingBody) -> None:
        """Refuse what no text is needed to refuse.

        Raises:
            RequestError: E633, another number of dimensions than the model's was asked for.
        """
        if body.dimensions not in (None, self.model.vector_width):
            raise unsupported("dimensions", f"the model's vectors have {self.model.vector_width} values")

    async def embed(
        self, texts: Sequence[str | Sequence[int]], stopped: WorkStop, prompt_name: str | None = None
    ) -> Vectors:
        """The vectors of some texts; to be called in the server's loop.

        Args:
            texts: at least one; text, or token ids.
            stopped: set where nobody waits any more: the rest is not computed.
            prompt_name: as for `Model.embed`.

        Raises:
            InputError: E126, E127, E152, E158 and E643 as `Model.embed`; else as `HostedInTurns.done`.
        """

        def made(check: Check) -> Vectors:
            tokens, vectors = 0, []
            for text in texts:
                check()
                tokens += self.model.embedded_tokens(text, prompt_name=prompt_name)
            for text in texts:
                check()
                vectors.append(self.model.embed([text], prompt_name=prompt_name)[0])
            return Vectors(tuple(vectors), tokens)

        return await self.done(made, stopped)


def embeddings_object(name: str, made: Vectors, body: EmbeddingBody) -> dict[str, Any]:
    """The answer of /v1/embeddings, as OpenAI's protocol writes it."""
    packed = body.encoding_format == "base64"
    values = [b64encode(each.astype("<f4").tobytes()).decode() if packed else each.tolist() for each in made.vectors]
    data = [{"object": "embedding", "index": i, "embedding": each} for i, each in enumerate(values)]
    usage = {"prompt_tokens": made.tokens, "total_tokens": made.tokens}
    return {"object": "list", "model": name, "data": data, "usage": usage}
