"""A decoder whose text has rows in the place of some tokens: those that an encoder made of images or of sound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.folder import Bundle
from edgec.bundle.manifest import Manifest
from edgec.runtime_py.decoding.prompt_cache import PromptCache
from edgec.runtime_py.engines.executor import Array, EngineName
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.structured.patience import require_wanted


class RowsSession(Session):
    """A sequence of text and rows on a loaded decoder, for one thread at a time."""

    def __init__(self, bundle: Bundle, threads: int | None = None, engine: EngineName | None = None) -> None:
        """Load the decoder, as ``Session`` does."""
        super().__init__(bundle, threads, engine)
        self._width = row_width(bundle.manifest)
        # Rows by the tokens whose places they take; -1: the token's own embedding is read there.
        self._rows = np.zeros((0, self._width), np.float32)
        self._place = np.full(self.limits.context, -1, np.int64)

    def take(self, tokens: Sequence[int], prompt: Any) -> None:
        """Put what a prompt came with in the place of its tokens; ``prompt`` is None where it came with nothing."""
        raise NotImplementedError

    def _put_rows(self, places: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        self._forget_rows()
        self._rows, self._place[places] = rows, np.arange(len(places))

    def _forget_rows(self) -> None:
        self._place[:] = -1

    def _inputs(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> tuple[Array, ...]:
        require_wanted()
        ids, positions, wanted = super()._inputs(tokens, start, rows)
        place = self._place[start : start + len(tokens)]
        embeds_mask = place >= 0
        input_embeds = np.zeros((1, len(tokens), self._width), np.float32)
        input_embeds[0, embeds_mask] = self._rows[place[embeds_mask]]
        return ids, positions, input_embeds, embeds_mask[None, :, None], *self._beside(start, len(tokens)), wanted

    def _beside(self, start: int, count: int) -> tuple[Array, ...]:
        """What else ``forward`` reads of so many tokens, in its order."""
        return ()


def row_width(manifest: Manifest) -> int:
    """The values of a row, as the decoder's methods read it."""
    # The decoder comes last, and a manifest has checked its rows.
    return next(int(tensor.shape[-1]) for tensor in manifest.methods[-1].inputs if tensor.name == "input_embeds")


def taking(prompt_cache: PromptCache, session: object, prompt: Any, resume: bool) -> PromptCache:
    """A text's prompt cache that makes the rows of its prompt first, so that their time counts.

    Args:
        prompt_cache: of a text without rows.
        session: any; one without rows keeps its cache.
        prompt: what the text came with, or None.
        resume: whether the text may continue from what the KV cache holds.
    """
    if not isinstance(session, RowsSession):
        return prompt_cache

    def recall(tokens: Sequence[int]) -> int:
        session.take(tokens, prompt)
        if prompt is None:
            return prompt_cache.recall(tokens)
        return session.reusable(tokens) if resume else 0

    return PromptCache(recall, prompt_cache.keep)
