"""Detectors of two stages choose rows by their scores; near ties are decided by the last bits of a sum.

Transformers' model is given the choice of a bundle that returns its scores beside its other outputs, if they are
transformers' own to within a tolerance. All that follows is then compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor


@contextmanager
def choosing_as(outputs: Sequence[Tensor], apart: Callable[[Tensor, Tensor], float], most: float) -> Iterator[None]:
    """Let ``torch.topk`` choose by a bundle's scores.

    Args:
        outputs: of the bundle, among which its scores of each class may be.
        apart: the difference of two tensors, relative to the second one's largest value.
        most: the largest difference for which scores are the same.
    """
    own = torch.topk

    def topk(scores: Tensor, k: int, dim: int = -1, **options: Any) -> Any:
        told = [made.amax(-1) for made in outputs if made.dim() > 1 and made.is_floating_point()]
        near = [made for made in told if made.shape == scores.shape and apart(made, scores) <= most]
        return own(near[0] if near else scores, k, dim, **options)

    with patch.object(torch, "topk", topk):
        yield
