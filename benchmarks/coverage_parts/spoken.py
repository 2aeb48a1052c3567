"""What a model says after a prompt, and whether a bundle says the same: where the two best tie, it may say either."""

from __future__ import annotations

from collections.abc import Callable
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
        read: the logits [NEW_TOKENS, vocabulary] after the prompt and each beginning of the text that is given.
    """

    prompt: list[int]
    wanted: list[int]
    plain: list[int]
    read: Callable[[list[int]], torch.Tensor]


def compared(said: list[int], reference: Reference, tie: float) -> tuple[str, str]:
    """The result, and the reason for it: every token that is not the best after what was said must tie with it."""
    if said in (reference.wanted, reference.plain):
        return "equal", "" if said == reference.wanted else _NUMBERED_OTHERWISE
    return judged(said, reference.read(said), tie)


def judged(said: list[int], logits: torch.Tensor, tie: float) -> tuple[str, str]:
    """The result beside logits that read what was said, and the reason for it."""
    apart = behind(said, logits)
    others = [index for index, each in enumerate(apart) if each > 0]
    if not others:
        return "equal", ""
    first, worst = others[0], max(apart)
    if worst < tie:
        told = f"save for {len(others)} of {len(said)} tokens, which tie with the best (at most {worst:.0e} apart)"
        return "equal", told
    told = f"from token {first} on, {apart[first]:.0e} of the largest behind the best"
    return "different", f"{told}; of {len(said)}, {len(others)} are others"


def behind(said: list[int], logits: torch.Tensor) -> list[float]:
    """How far the logit of each token that was said is behind the best of its row, relative to the largest.

    Infinitely, where the row holds a NaN.
    """
    chosen = logits.gather(-1, torch.tensor(said)[:, None])[:, 0]
    apart = (logits.amax(-1) - chosen) / logits.abs().amax(-1)
    return [float(each) for each in apart.nan_to_num(torch.inf)]
