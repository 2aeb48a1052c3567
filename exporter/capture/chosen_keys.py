"""Layers that choose which keys a token attends to, for texts of which they choose every key.

    hidden -> indexer -> best keys                       (DeepSeek V3.2, GLM 5, MiniMax M3, Qwen 4 ...)
    q, k, v, causal mask & best keys -> attention
        ==>
    q, k, v -> attention

An indexer keeps the best 2,048 keys in most published configs. Until a text has more, its choice changes nothing, and
neither its scores nor a cache of its own keys are computed. A longer context is refused (E740).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn

from edgec.exporter.sources.decoders.key_choice import keys_are_chosen


@dataclass(frozen=True)
class OpenMask:
    """Stands for a mask that hides no key, in code that cuts it and narrows it by what an indexer chose."""

    dtype: torch.dtype = torch.bool

    def __getitem__(self, _: object) -> Self:
        return self

    def __and__(self, _: object) -> Self:
        return self

    __iter__ = None  # what can be cut would be taken for a sequence without an end


class EveryKey(nn.Module):
    """Stands for an indexer that chooses every key; it returns what masks may be narrowed by."""

    def forward(self, *_: Any, **__: Any) -> OpenMask:
        """What is chosen, whatever the arguments are."""
        return OpenMask()


# How many keys a layer attends to before it begins to choose among them, by its class; others may keep sums of keys.
_KEPT: Mapping[str, Callable[[Any], int]] = {
    **dict.fromkeys(
        ("AXK2Indexer", "DeepseekV32Indexer", "Dots3NoteTextIndexer", "GlmMoeDsaIndexer", "HYV4Indexer"),
        lambda indexer: int(indexer.index_topk),
    ),
    "MiniMaxM3VLIndexer": lambda indexer: int(indexer.topk_blocks * indexer.block_size),
    # Whole blocks, and the keys after the last whole one.
    "Qwen4ExpTextQSAIndexer": lambda indexer: int((indexer.block_topk + 1) * indexer.compress_ratio - 1),
    "DogeAttention": lambda attention: int(attention.keep_window_size),
}


def attend_to_every_key(model: nn.Module, max_tokens: int = 0) -> None:
    """Replace the indexers of a model, in place, where they choose every key of a text.

    Those of which edgec does not know how many keys they keep stay, and are refused when the model is traced.

    Args:
        model: as transformers builds it.
        max_tokens: in the longest text; 0: none is too long.

    Raises:
        InputError: E740, a layer chooses among the keys of a longer text.
    """
    kept = {
        name: _KEPT[type(module).__name__](module)
        for name, module in model.named_modules(remove_duplicate=False)
        if type(module).__name__ in _KEPT
    }
    least = min(kept.values(), default=max_tokens)
    if least < max_tokens:
        raise keys_are_chosen(type(model).__name__, least, max_tokens)
    for name in kept:
        if type(model.get_submodule(name)).__name__.endswith("Indexer"):
            model.set_submodule(name, EveryKey())
