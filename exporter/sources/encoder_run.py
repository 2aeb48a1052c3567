"""What an encoder needs while it runs, found by running its code once over fake tensors, without memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from edgec.exporter.capture.attention import masks_left_out

InputForms = Mapping[str, tuple[tuple[int, ...], torch.dtype]]
"""An encoder's inputs by name: shape and dtype."""


@dataclass(frozen=True)
class EncoderRun:
    """A run of an encoder.

    Attributes:
        activation_bytes: inputs and outputs of its widest operator.
        positions: of the states that it returns, float32 [1, T, C]; 0 for outputs of other shapes.
    """

    activation_bytes: int
    positions: int


def run_of(encoder: nn.Module, inputs: InputForms) -> EncoderRun | None:
    """Run an encoder on the meta device; None where its code does not run there."""
    from torch._subclasses import FakeTensorMode

    widest = _Widest({id(tensor) for tensor in (*encoder.parameters(), *encoder.buffers())})
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with fake, torch.device("meta"), torch.no_grad(), masks_left_out(encoder), widest:
            made = encoder(**{name: torch.zeros(shape, dtype=dtype) for name, (shape, dtype) in inputs.items()})
    except Exception:  # Model code of any family fails in its own way where values are needed.
        return None
    states = getattr(made, "last_hidden_state", None)
    return EncoderRun(widest.bytes, states.shape[1] if isinstance(states, Tensor) and states.dim() == 3 else 0)


class _Widest(TorchDispatchMode):
    """Notes the most bytes that an operator reads and writes, without the model's own tensors."""

    def __init__(self, own: set[int]) -> None:
        super().__init__()
        self.own, self.bytes = own, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if not getattr(func, "is_view", False):
            read = (tensor for tensor in _tensors(args) if id(tensor) not in self.own)
            self.bytes = max(self.bytes, sum(tensor.nbytes for tensor in (*read, *_tensors((made,)))))
        return made


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
