"""Layers that choose which keys a token attends to, for texts of which they choose every key.

    hidden -> indexer -> best keys                       (DeepSeek V3.2, GLM 5, MiniMax M3, Qwen 4 ...)
    q, k, v, causal mask & best keys -> attention
        ==>
    q, k, v -> attention

An indexer keeps the best 2,048 keys in published configs. While a text is no longer, nothing is left out: its scores
change nothing, and neither they nor a cache of its own keys are computed. A longer context is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn

from edgec.errors import InputError


@dataclass(frozen=True)
class OpenMask:
    """Stands for a mask that hides no key, in code that cuts it and narrows it by what an indexer chose."""

    dtype: torch.dtype = torch.bool

    def __getitem__(self, _: object) -> Self:
        return self

    def __and__(self, _: object) -> Self:
        return self


class EveryKey(nn.Module):
    """Stands for an indexer that chooses every key; it returns what masks may be narrowed by."""

    def forward(self, *_: Any, **__: Any) -> OpenMask:
        """What is chosen, whatever the arguments are."""
        return OpenMask()


def attend_to_every_key(model: nn.Module, max_tokens: int = 0) -> None:
    """Replace the indexers of a model, in place, where they choose every key of a text.

    Those of which nothing says how many keys they keep stay.

    Args:
        model: as transformers builds it.
        max_tokens: in the longest text; 0: none is too long.

    Raises:
        InputError: E740, a layer chooses among the keys of a longer text.
    """
    kept = {name: keys for name, module in model.named_modules() if (keys := _kept_keys(module)) is not None}
    least = min(kept.values(), default=max_tokens)
    if least < max_tokens:
        raise InputError(
            what=f"from {least + 1} tokens on, this model's layers choose the keys that they attend to",
            where=type(model).__name__,
            why=f"its config lets them keep {least} keys, the context is {max_tokens}; edgec attends to all keys",
            fix=f"export with --context {least}",
            code="E740",
        )
    for name in kept:
        if type(model.get_submodule(name)).__name__.endswith("Indexer"):
            model.set_submodule(name, EveryKey())


def _kept_keys(module: nn.Module) -> int | None:
    """How many keys a layer attends to before it begins to choose among them; None where it never does."""
    own = vars(module)
    if "keep_window_size" in own:  # Doge
        return int(own["keep_window_size"])
    if (
        not type(module).__name__.endswith("Indexer") or "compress_rate" in own
    ):  # DeepSeek V4 chooses among sums of keys
        return None
    if "token_budget" in own:  # whole blocks, and those after the last whole one
        ratio = int(own["compress_ratio"])
        return int(own["token_budget"]) // ratio * ratio + ratio - 1
    if "topk_blocks" in own:
        return int(own["topk_blocks"]) * int(own["block_size"])
    return int(own["index_topk"]) if "index_topk" in own else None
