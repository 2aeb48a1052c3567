"""Name the layer of a model whose numbers are not finite: no artifact of it can be compared, or used."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from edgec.errors import InputError
from edgec.exporter.parity.execution import run_eager
from edgec.ir.call_plan import Call


def not_finite(model: nn.Module, tokens: Sequence[int]) -> InputError:
    """The refusal of a decoder that gives NaN or infinities on a text, which is run once more to find the layer."""
    found: list[str] = []
    hooks = [each.register_forward_hook(partial(_note, found, name)) for name, each in _layers(model)]
    try:
        run_eager(model, tokens, (Call(0, len(tokens), 1),))
    finally:
        for hook in hooks:
            hook.remove()
    return InputError(
        what="The model computes numbers that are not finite.",
        where=f"the output of {found[0]}" if found else "its logits",
        why=f"on the text of the parity ladder, in float32, before anything is rounded ({len(tokens)} tokens)",
        fix="look at that layer's weights for NaN, infinities or huge values, and save the model again",
        code="E820",
    )


def _layers(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The modules that hold no others, by name."""
    return [(name, each) for name, each in model.named_modules() if not any(True for _ in each.children())]


def _note(found: list[str], name: str, module: nn.Module, inputs: Any, output: Any) -> None:
    values = output if isinstance(output, (tuple, list)) else (output,)
    floats = [value for value in values if isinstance(value, Tensor) and value.is_floating_point()]
    if not found and not all(bool(torch.isfinite(value).all()) for value in floats):
        found.append(name or type(module).__name__)
