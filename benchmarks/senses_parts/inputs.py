"""What the models read: seeded, the same for every runtime.

Only numpy: the peers' environments import this module too. ``given`` is a case's own description of its inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Given = Mapping[str, Any]
Floats = NDArray[np.float32]


def features(given: Given, seed: int = 0) -> Floats:
    """Log-mel features of a window of sound, float32 [1, mels, frames]."""
    return _normal(seed, 1, given["mels"], given["frames"])


def pixels(given: Given, seed: int = 0) -> Floats:
    """An image as its processor hands it over, float32 [1, C, H, W]."""
    return _normal(seed, 1, given["channels"], given["size"], given["size"])


def text(given: Given, length: int, seed: int = 0) -> NDArray[np.int64]:
    """Token ids of a text, int64 [1, length], without the ids that mean something."""
    drawn = np.random.default_rng(seed).integers(given["first_word"], given["last_word"], (1, length))
    return drawn.astype(np.int64)


def prompt(given: Given, seed: int = 0) -> NDArray[np.int64]:
    """A prompt about an image, int64 [1, S]: words, a token for each row of the image, words."""
    rows, words = given["rows"], text(given, given["words"], seed)
    image = np.full((1, rows), given["image_token"], np.int64)
    return np.concatenate([words[:, :4], image, words[:, 4:]], 1)


def _normal(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
