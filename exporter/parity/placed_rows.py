"""Execute the decoder of an artifact on a text that has rows in the place of some tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.entry_points import Limits
from edgec.ir.call_plan import Call, last_rows
from edgec.ir.row_inputs import EMBEDS_MASK, INPUT_EMBEDS, ROW_INPUTS, Placed, placed_part
from edgec.ir.static_methods import Methods, static_logits


def rows_placed(tokens: Sequence[int], mark: int, rows: Tensor) -> dict[str, Tensor]:
    """A text with rows [T, width] in the place of the token ``mark``, once for each."""
    embeds_mask = torch.tensor([list(tokens)]) == mark
    input_embeds = torch.zeros(1, len(tokens), rows.shape[-1])
    input_embeds[embeds_mask] = rows
    return {INPUT_EMBEDS: input_embeds, EMBEDS_MASK: embeds_mask.unsqueeze(-1)}


class WrittenText(ABC):
    """The decoder of an artifact, which reads rows among tokens."""

    @abstractmethod
    def logits(self, tokens: tuple[int, ...], call: Call, placed: Placed) -> Tensor:
        """Logits [K, V] of a call's last rows; ``placed``: of the whole text."""

    def plan_logits(self, tokens: tuple[int, ...], plan: Sequence[Call], placed: Placed) -> Tensor:
        """Logits [P, V] at the compared positions of a text."""
        return torch.cat([self.logits(tokens, call, placed) for call in plan])

    def greedy(self, prompt: list[int], placed: Placed, limits: Limits, count: int) -> tuple[list[Any], list[int]]:
        """The likeliest tokens after a prompt, and the logits [V] that chose each; ``placed``: of a longer text."""
        tokens, rows, fed = list(prompt), [], 0
        for _ in range(min(count, limits.context - len(prompt))):
            while fed < len(tokens):
                size = min(limits.prefill_chunk, len(tokens) - fed)
                logits, fed = self.logits(tuple(tokens), Call(fed, size, 1), placed)[0], fed + size
            rows.append(logits.numpy().copy())
            tokens.append(int(logits.argmax()))
        return rows, tokens[len(prompt) :]


class ExecutedText(WrittenText):
    """The decoder of an artifact in ExecuTorch's runtime, in this process."""

    def __init__(self, artifact: Path, method: str) -> None:
        """Load the method.

        Raises:
            InputError: E157, the runtime refuses it.
        """
        from edgec.runtime_py.engines.open_artifact import TorchMethod

        self._forward = TorchMethod(artifact, method)

    def logits(self, tokens: tuple[int, ...], call: Call, placed: Placed) -> Tensor:
        """Logits [K, V] of a call's last rows; ``placed``: of the whole text."""
        part, ids = placed_part(placed, call.start, call.size), list(tokens[call.start : call.start + call.size])
        places = torch.arange(call.start, call.start + call.size)
        more = [part[name].contiguous() for name in ROW_INPUTS if name in part]
        outputs: Any = self._forward((torch.tensor([ids]), places, *more, last_rows(call)))
        logits: Tensor = outputs[0][0].float().clone()
        return logits


class StaticText(WrittenText):
    """The static methods of an artifact's decoder."""

    def __init__(self, methods: Methods) -> None:
        self._methods = methods

    def logits(self, tokens: tuple[int, ...], call: Call, placed: Placed) -> Tensor:
        """Logits [1, V] of a call's last token; ``placed``: of the whole text."""
        with torch.no_grad():
            return static_logits(self._methods, tokens, call, placed).unsqueeze(0)
