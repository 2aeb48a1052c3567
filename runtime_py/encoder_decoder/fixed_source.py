"""A text for an encoder of fixed shapes: filled up with padding, and where it ends."""

from __future__ import annotations

import numpy as np

from edgec.runtime_py.engines.executor import Array

_PADDING = 0


def filled(source: Array, length: int) -> tuple[Array, Array]:
    """A text int64 [1, T] with padding after it, int64 [1, length], and 1 where its tokens are, float32 [1, length]."""
    after = ((0, 0), (0, length - source.shape[-1]))
    return np.pad(source, after, constant_values=_PADDING), np.pad(np.ones(source.shape, np.float32), after)
