"""How far ahead the tokens of a prompt see: the rows of an image see each other, in some models all of a prompt does.

A token's span_end is the last position that it sees. It is its own position in causal text, the last row's for the rows
of an image (Gemma 3), and the prompt's end for all of a prompt with images (PaliGemma).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.entry_points import Ahead


def span_ends(ahead: Ahead, tokens: Sequence[int], image_token: int, prompt: int) -> NDArray[np.int64]:
    """The last position that each token sees, int64 [L]; ``prompt``: tokens of the prompt, which begins at 0."""
    span_end = np.arange(len(tokens))
    seen = np.asarray(tokens) == image_token
    if ahead == "prompt" and seen[:prompt].any():
        span_end[:prompt] = prompt - 1
    if ahead == "image":
        # Where a row is followed by none, its run ends: each row takes the next end at or after it.
        ends = np.flatnonzero(seen & ~np.append(seen[1:], False))
        span_end[seen] = ends[np.searchsorted(ends, np.flatnonzero(seen))]
    return span_end


def whole_calls(span_end: NDArray[np.int64], start: int, chunk: int) -> list[int]:
    """Cut the tokens from ``start`` on into calls of at most ``chunk`` that no token sees beyond, as few as possible.

    Returns:
        The size of each call; one is larger than ``chunk`` where its tokens see further than that.
    """
    sizes, first, length = [], start, len(span_end)
    furthest = np.maximum.accumulate(span_end) if length else span_end
    while first < length:
        # The last token that nothing before it sees beyond, among those that a call can take.
        ends = [i + 1 for i in range(first, min(first + chunk, length)) if furthest[i] <= i]
        end = ends[-1] if ends else int(furthest[first]) + 1
        sizes.append(end - first)
        first = end
    return sizes
