"""Text that a model writes: tokens sampled with a seed after the beginnings that it is given, all in one batch.

A model's own text is like what it will see, and needs no file (LLM-QAT, Liu et al. 2023, calibrates on such text).
Beginnings may differ in length: they are read up to the shortest one's end, and the rest of the longer ones is put in
place of what was sampled, so that no padding lies in the batch and every family's own cache serves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from edgec.exporter.parity.own_code import own_code

WrittenTexts = tuple[tuple[int, ...], ...]
# Measured on SmolLM2: at 1.0 a small model loses its thread within a sentence, greedy text repeats itself.
TEMPERATURE = 0.8


class NotFiniteError(Exception):
    """The model gives no probabilities: a logit is NaN, or all are infinite."""


def write_texts(
    model: nn.Module,
    starts: Sequence[Sequence[int]],
    length: int,
    seed: int,
    told: Callable[[int], None] = lambda _: None,
) -> WrittenTexts:
    """Continue each beginning to a number of tokens, with the model's own cache.

    Args:
        model: transformers' own, in float32.
        starts: token ids, at least one each and fewer than ``length``.
        length: tokens of each text, its beginning included.
        told: is told of each step of the batch.
        seed: of all draws; the same seed, model and machine give the same texts.

    Returns:
        WrittenTexts of ``length`` tokens each. A text goes on after an end token: chat models then write the next turn.

    Raises:
        NotFiniteError: the model's logits are not finite.
        InputError: E769, the model's own code fails.
    """
    shortest = min(map(len, starts))
    begun = torch.tensor([list(start[:shortest]) for start in starts])
    chooser = _Chooser(starts, seed, told)
    with torch.no_grad(), own_code(model, "a text that it writes"), _no_settings(model):
        written: Tensor = model.generate(  # type: ignore[operator]
            begun,
            attention_mask=torch.ones_like(begun),
            generation_config=_to_length(length),
            logits_processor=[chooser],
        )
    if not chooser.finite:
        raise NotFiniteError
    return tuple(tuple(row) for row in written.tolist())


def _to_length(length: int) -> Any:
    """Settings of transformers: the token that `_Chooser` leaves, up to a length."""
    from transformers import GenerationConfig

    return GenerationConfig(max_length=length, do_sample=False, num_beams=1, use_cache=True)


@contextmanager
def _no_settings(model: Any) -> Iterator[None]:
    """Leave out the model's own settings inside the block: they would end texts, and forbid or repeat tokens."""
    from transformers import GenerationConfig

    own, model.generation_config = model.generation_config, GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = own


class _Chooser:
    """Leaves one token for each text: that of its beginning, else one that is drawn.

    Args:
        starts: the beginnings.
        seed: of the draws, in a generator of their own.
        told: is told of each step, and may interrupt it.
    """

    def __init__(self, starts: Sequence[Sequence[int]], seed: int, told: Callable[[int], None]) -> None:
        self.starts, self.told, self.finite, self.steps = starts, told, True, 0
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, tokens: Tensor, logits: Tensor) -> Tensor:
        """Logits [N, V] of which one is 0 and all others are -inf."""
        self.told(self.steps)
        self.steps += 1
        scaled = logits.float() / TEMPERATURE
        self.finite = self.finite and bool(scaled.logsumexp(-1).isfinite().all())
        drawn = torch.multinomial(_probabilities(scaled), 1, generator=self.generator)[:, 0].tolist()
        place = tokens.shape[1]
        chosen = [
            start[place] if place < len(start) else token for start, token in zip(self.starts, drawn, strict=True)
        ]
        alone = torch.full_like(scaled, float("-inf"))
        alone[range(len(chosen)), chosen] = 0.0
        return alone


def _probabilities(scaled: Tensor) -> Tensor:
    """Rows that can be drawn from; those that are not finite become uniform, and are not used."""
    usable = scaled.logsumexp(-1, keepdim=True).isfinite()
    return torch.where(usable, scaled, torch.zeros_like(scaled)).softmax(-1)
