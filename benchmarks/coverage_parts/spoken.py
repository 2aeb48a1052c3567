"""What a model says after a prompt, and whether a bundle says the same: where the two best tie, it may say either."""

from __future__ import annotations

from dataclasses import dataclass

import torch

PROMPT, NEW_TOKENS = 24, 24
_NUMBERED_OTHERWISE = "to the model's own forward; transformers' generate numbers the positions otherwise"


@dataclass(frozen=True)
class Reference:
    """What transformers says.

    Attributes:
        prompt: token IDs.
        wanted: the greedy tokens of ``generate``, or of the rounded graph.
        plain: those of the model's forward over the whole text, or the same.
        margins: how far the two best are apart at each, relative to the largest logit.
    """

    prompt: list[int]
    wanted: list[int]
    plain: list[int]
    margins: list[float]


def compared(said: list[int], reference: Reference, tie: float) -> tuple[str, str]:
    """The result, and the reason for it."""
    if said in (reference.wanted, reference.plain):
        return "equal", "" if said == reference.wanted else _NUMBERED_OTHERWISE
    first = next(i for i in range(NEW_TOKENS) if said[i] != reference.wanted[i])
    margin = f"{reference.margins[first]:.0e} of the largest"
    if reference.margins[first] < tie:
        return "equal", f"up to token {first}, a tie of the two best (margin {margin})"
    return "different", f"from token {first} on, where the two best are {margin} apart"


def margins(logits: torch.Tensor) -> list[float]:
    """How far the two best logits of each row are apart, relative to the largest."""
    best = logits.topk(2).values
    return [float(each) for each in (best[:, 0] - best[:, 1]) / logits.abs().amax(-1)]
