"""Compare outputs that are not distributions over tokens, one by one, each relative to its own size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.findings import Rung
from edgec.exporter.parity.ladder import Stage


def worst_output_rung(
    before: Stage, after: Stage, sizes: Sequence[int], compare: Callable[[Stage, Stage], Rung]
) -> Rung:
    """The rung of the output with the largest relative difference, so that large outputs cannot hide small ones.

    Args:
        before: the reference's outputs, in one row (``flatten_outputs``).
        after: the outputs to judge, in one row.
        sizes: number of values of each output, in order.
        compare: makes a rung from two stages.

    Returns:
        The rung without the figures that only distributions over tokens have.
    """
    one, other = (stage.logits.split(list(sizes), 1) for stage in (before, after))
    rungs = [
        compare(replace(before, logits=a), replace(after, logits=b))
        for a, b in zip(one, other, strict=True)
        if a.numel()
    ]
    place = max(range(len(rungs)), key=lambda index: _relative(rungs[index]))
    worst = rungs[place]
    place_note = f"output {place + 1} of {len(rungs)}, which differs most" if len(rungs) > 1 else ""
    note = "; ".join(filter(None, (worst.note, place_note)))
    return worst.model_copy(update={"kl_mean": None, "kl_max": None, "top1_agreement": None, "note": note})


def _relative(rung: Rung) -> float:
    """The largest difference relative to the reference's size; infinite where a value is not finite."""
    if rung.max_abs is None or rung.reference_max_abs is None:
        return math.inf
    return rung.max_abs / max(rung.reference_max_abs, 1e-12)


def flatten_outputs(outputs: Any) -> Tensor:
    """Join all output tensors to one row [1, N] of float32."""
    return torch.cat([value.detach().float().reshape(1, -1) for value in _tensors(outputs)], 1)


def sizes_of(outputs: Any) -> list[int]:
    """The number of values in each output tensor."""
    return [value.numel() for value in _tensors(outputs)]


def _tensors(outputs: Any) -> Sequence[Tensor]:
    return outputs if isinstance(outputs, (tuple, list)) else (outputs,)
