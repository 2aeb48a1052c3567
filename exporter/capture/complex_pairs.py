"""Complex numbers of model code as pairs of real tensors: no target computes with complex ones.

    view_as_real(view_as_complex(x) * polar(1, angles))   ==>   stack([re cos - im sin, re sin + im cos], -1)

Rotary embeddings of some families (DeepSeek V2, Llama 4) are written so. While a model is traced, torch's functions
that make and take apart complex tensors work on pairs; what lies between (indexing, products) acts on both parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor


@dataclass(frozen=True)
class Pair:
    """A complex tensor: its real and its imaginary part, of one shape."""

    real: Tensor
    imag: Tensor

    def __mul__(self, other: Pair | Tensor | float) -> Pair:
        """The product with a complex or real factor."""
        if isinstance(other, Pair):
            real = self.real * other.real - self.imag * other.imag
            return Pair(real, self.real * other.imag + self.imag * other.real)
        return Pair(self.real * other, self.imag * other)

    __rmul__ = __mul__

    def __getitem__(self, index: Any) -> Pair:
        """Index both parts alike."""
        return Pair(self.real[index], self.imag[index])

    def conj(self) -> Pair:
        """The complex conjugate."""
        return Pair(self.real, -self.imag)

    def to(self, *args: Any, **kwargs: Any) -> Pair:
        """Itself: all of a graph lies on one device, in float32."""
        return self

    def __getattr__(self, name: str) -> Any:
        """A method of tensors that moves values without changing them, on both parts; else their common attribute."""
        own = getattr(self.real, name)
        if name not in _MOVING:
            return own
        return lambda *args, **kwargs: Pair(own(*args, **kwargs), getattr(self.imag, name)(*args, **kwargs))


_MOVING = frozenset(
    {"unsqueeze", "squeeze", "transpose", "permute", "reshape", "view", "expand", "flatten", "contiguous", "repeat"}
)


@contextmanager
def complex_as_pairs() -> Iterator[None]:
    """Let torch's functions for complex tensors work on pairs inside the block."""
    with ExitStack() as stack:
        for name, function in _FUNCTIONS.items():
            stack.enter_context(patch.object(torch, name, function))
        yield


def _polar(abs: Tensor, angle: Tensor) -> Pair:
    return Pair(abs * angle.cos(), abs * angle.sin())


def _view_as_complex(input: Tensor) -> Pair:
    return Pair(input[..., 0], input[..., 1])


def _view_as_real(input: Pair) -> Tensor:
    return torch.stack([input.real, input.imag], -1)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "complex": Pair,
    "polar": _polar,
    "view_as_complex": _view_as_complex,
    "view_as_real": _view_as_real,
}
