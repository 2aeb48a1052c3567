"""What is known of an output beside its values: its name and shape, its kind, and which axes count positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.channels import SMALLEST_HALF, shared_axes
from edgec.bundle.entry_points import MethodInfo

_SURE, _LAST_PLACES = 0.5, 1e-6


@dataclass(frozen=True)
class OutputForm:
    """An output other than a distribution over tokens.

    Attributes:
        shape: of the values.
        name: as the manifest has it; empty where it is the only one or not known.
        shared: axes of positions and of a batch.
        counts: it holds integers or truth values, as class maps and masks do: they are equal or not.
        half: float16 holds it.
        probability: its values are probabilities.
    """

    shape: tuple[int, ...]
    name: str = ""
    shared: frozenset[int] = frozenset({0})
    counts: bool = False
    half: bool = False
    probability: bool = False

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


def with_probabilities(forms: Sequence[OutputForm], calls: Sequence[Sequence[Tensor]]) -> list[OutputForm]:
    """The forms, of which those of probabilities say so: from 0 to 1 for all inputs, and one half or more for some.

    Args:
        forms: of each output.
        calls: the outputs for each of the inputs that a module is judged on.
    """
    columns = zip(*calls, strict=True)
    return [replace(form, probability=_probable(each)) for form, each in zip(forms, columns, strict=True)]


def _probable(values: Sequence[Tensor]) -> bool:
    if any(not value.is_floating_point() or not value.numel() for value in values):
        return False
    ends = [(float(value.min()), float(value.max())) for value in values]
    # Softmax in float32 may end a last place above 1.
    return all(low >= 0 and high <= 1 + _LAST_PLACES for low, high in ends) and max(high for _, high in ends) >= _SURE


def _counts(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex
