"""Positions of three parts (mRoPE): time, height and width, by which Qwen models with vision rotate queries and keys.

A token of text has three equal parts. The rows of an image share the first, and have their place in the image's grid
as the second and third; what follows continues after the largest part so far. The KV cache knows nothing of it: it is
written, and attention is causal, by the plain position. As Qwen2-VL, arXiv 2409.12191, section 2.1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def mrope_positions(
    tokens: Sequence[int], image_token: int, grid: tuple[int, int], length: int = 0
) -> NDArray[np.int64]:
    """The positions of a text from its beginning, int64 [3, max(L, length)].

    Args:
        tokens: the text [L]; images are whole.
        image_token: the id that stands for each row of an image.
        grid: rows of an image, high and wide.
        length: positions of text are continued up to here.
    """
    own = np.indices((1, *grid)).reshape(3, -1)
    parts, at, place = [np.zeros((3, 0), np.int64)], 0, 0
    for start in _image_starts(tokens, image_token, own.shape[1]):
        parts += [_text(place, start - at), place + (start - at) + own]
        place, at = place + (start - at) + max(grid), start + own.shape[1]
    return np.concatenate([*parts, _text(place, max(len(tokens), length) - at)], axis=1)


def _text(place: int, tokens: int) -> NDArray[np.int64]:
    return np.tile(np.arange(place, place + tokens), (3, 1))


def _image_starts(tokens: Sequence[int], image_token: int, rows: int) -> list[int]:
    """Where images begin; several may follow each other directly."""
    result: list[int] = np.flatnonzero(np.asarray(tokens) == image_token)[::rows].tolist()
    return result
