"""Outputs of a model that are no distribution over tokens: compared one by one, each for its own size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.manifest import Rung
from edgec.exporter.parity.ladder import Stage


def worst_output_rung(before: Stage, after: Stage, sizes: Sequence[int], how: Callable[[Stage, Stage], Rung]) -> Rung:
    """The rung of the output that differs most for its own size: a small output does not hide behind a large one.

    Args:
        before: all outputs as rows, see ``flatten_outputs``.
        after: the same.
        sizes: values of each output, in order.
        how: makes a rung of two stages.

    Returns:
        without the figures that only a distribution over tokens has.
    """
    one, other = (stage.logits.split(list(sizes), 1) for stage in (before, after))
    rungs = [
        how(replace(before, logits=a), replace(after, logits=b)) for a, b in zip(one, other, strict=True) if a.numel()
    ]
    place = max(range(len(rungs)), key=lambda index: _relative(rungs[index]))
    worst = rungs[place]
    told = f"output {place + 1} of {len(rungs)}, which differs most" if len(rungs) > 1 else ""
    note = "; ".join(filter(None, (worst.note, told)))
    return worst.model_copy(update={"kl_mean": None, "kl_max": None, "top1_agreement": None, "note": note})


def _relative(rung: Rung) -> float:
    """The largest difference for the reference's size; infinite where a value is not finite."""
    if rung.max_abs is None or rung.reference_max_abs is None:
        return math.inf
    return rung.max_abs / max(rung.reference_max_abs, 1e-12)


def flatten_outputs(outputs: Any) -> Tensor:
    """All output tensors as rows [1, N] of float32."""
    return torch.cat([value.detach().float().reshape(1, -1) for value in _tensors(outputs)], 1)


def sizes_of(outputs: Any) -> list[int]:
    """Values of each output tensor."""
    return [value.numel() for value in _tensors(outputs)]


def _tensors(outputs: Any) -> Sequence[Tensor]:
    return outputs if isinstance(outputs, (tuple, list)) else (outputs,)
