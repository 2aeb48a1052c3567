"""Parts of transformers' model code in a form that torch.export can trace, while a module is captured."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from unittest.mock import patch

from torch import Tensor

_MASKS = "transformers.masking_utils"
_DEBERTA = "transformers.models.deberta.modeling_deberta"


@contextmanager
def traceable_code() -> Iterator[None]:
    """Put the traceable forms in place of transformers' own, with the same results."""
    with _masks_by_broadcast(), _spans_as_numbers():
        yield


@contextmanager
def _masks_by_broadcast() -> Iterator[None]:
    """Let masks that transformers maps over each index be computed at once; what vmap leaves in a graph cannot run."""
    masks = sys.modules.get(_MASKS)
    if masks is None:
        yield
        return

    def broadcast(mask: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def of_all(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            every = masks._non_vmap_expansion_sdpa(batch, head, query, key)
            return mask(*every).expand(batch.shape[0], -1, query.shape[0], key.shape[0])  # len() would fix the lengths

        return of_all

    with patch.multiple(masks, _vmap_expansion_sdpa=broadcast, TransformGetItemToIndex=nullcontext):
        yield


@contextmanager
def _spans_as_numbers() -> Iterator[None]:
    """Let DeBERTa look its relative positions up in the whole table, not in a part whose size is a tensor's value.

    A text shorter than the span has no distance outside it, so the rows that are looked up are the same.
    """
    deberta = sys.modules.get(_DEBERTA)
    if deberta is None:
        yield
        return
    with patch.object(deberta, "compute_attention_span", lambda query, key, largest: largest):
        yield
