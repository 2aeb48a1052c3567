"""Names for what a module is called with, from the signature of its ``forward``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence

from torch import Tensor, nn

Examples = Sequence[Tensor] | Mapping[str, Tensor]
"""Inputs in the order of the parameters of ``forward``, or by their names."""


def bound_arguments(module: nn.Module, examples: Examples) -> inspect.BoundArguments:
    """The example inputs by the parameters of ``forward``; a TypeError where they do not fit."""
    signature = inspect.signature(module.forward)
    return signature.bind(**examples) if isinstance(examples, Mapping) else signature.bind(*examples)


def names_of_inputs(module: nn.Module, examples: Examples) -> list[str]:
    """A name for each input tensor of a module; ``*args`` gives args_0, args_1."""
    if isinstance(examples, Mapping):
        return list(examples)
    names: list[str] = []
    for key, value in bound_arguments(module, examples).arguments.items():
        names += [f"{key}_{index}" for index in range(len(value))] if isinstance(value, tuple) else [key]
    return names
