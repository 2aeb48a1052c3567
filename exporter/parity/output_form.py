"""What is known of an output beside its values: its name and shape, its kind, and which axes count positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.channels import SMALLEST_HALF, shared_axes
from edgec.bundle.entry_points import MethodInfo


@dataclass(frozen=True)
class OutputForm:
    """An output other than a distribution over tokens.

    Attributes:
        shape: of the values.
        name: as the manifest has it; empty where it is the only one or not known.
        shared: axes of positions and of a batch.
        counts: it holds integers or truth values, as class maps and masks do: they are equal or not.
        half: float16 holds it.
    """

    shape: tuple[int, ...]
    name: str = ""
    shared: frozenset[int] = frozenset({0})
    counts: bool = False
    half: bool = False

    @property
    def size(self) -> int:
        """The number of values."""
        return prod(self.shape)

    @property
    def smallest(self) -> float:
        """What is too small for the values' format to hold well."""
        return SMALLEST_HALF if self.half else 0.0


def forms_of(outputs: Any, inputs: Sequence[Tensor] = (), method: MethodInfo | None = None) -> list[OutputForm]:
    """The form of each output tensor.

    Args:
        outputs: a tensor or several, as a module returned them.
        inputs: that the outputs were computed from.
        method: what the manifest says about the outputs; an artifact may hold integers in another type.
    """
    tensors = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    given = [(each.shape, _counts(each.dtype)) for each in inputs]
    known = [(info.name, info.dtype) for info in method.outputs] if method else [("", "")] * len(tensors)
    return [
        OutputForm(
            tuple(value.shape),
            name if len(tensors) > 1 else "",
            shared_axes(value.shape, given),
            _counts(value.dtype) if not dtype else _counts(getattr(torch, dtype)),
            dtype == "float16" or value.dtype is torch.float16,
        )
        for value, (name, dtype) in zip(tensors, known, strict=True)
    ]


def _counts(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex
