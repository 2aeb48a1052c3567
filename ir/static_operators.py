"""The operator of our own that static methods call, and its meaning in plain torch.

    edgec::update_slots   cache [1, G, slots, D], value [1, G, S, D], start int32 [1]    -> [1, G, slots, D]

Slots ``start .. start + S - 1`` of the result hold the value, all others what the cache held. Core ML has one
instruction for it (``slice_update``); torch's own ways to say it reach Core ML as a scatter, or not at all.
"""

from __future__ import annotations

import torch
from torch import Tensor

from edgec.ir.operators import NAMESPACE


def update_slots(cache: Tensor, value: Tensor, start: Tensor) -> Tensor:
    """The cache with some slots replaced."""
    slots = start.long() + torch.arange(value.shape[2])
    return cache.index_copy(2, slots, value)


def _fake(cache: Tensor, value: Tensor, start: Tensor) -> Tensor:
    return torch.empty_like(cache)


# Kept alive: a library that is collected takes its operators along.
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
_LIBRARY.define("update_slots(Tensor cache, Tensor value, Tensor start) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
_LIBRARY.impl("update_slots", update_slots, "CPU")
torch.library.register_fake(f"{NAMESPACE}::update_slots", _fake, lib=_LIBRARY)
UPDATE_SLOTS = torch.ops.edgec.update_slots.default
