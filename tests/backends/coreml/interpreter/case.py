"""One use of one operator, as MIL spells it and as torch does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

Given = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """One use of one operator.

    Attributes:
        operator: MIL's name.
        build: (builder, inputs by name, numpy float type) -> a variable or several.
        expected: inputs by name as float32 tensors -> a tensor or several.
        label: what is special about this use.
    """

    operator: str
    build: Callable[[Any, Given, Any], Any]
    expected: Callable[[Given], Any]
    label: str = ""

    @property
    def name(self) -> str:
        return f"{self.operator}-{self.label}" if self.label else self.operator


def inputs() -> dict[str, Tensor]:
    """The inputs that all cases share; values are multiples of 1/64, exact in float16."""
    generator = torch.Generator().manual_seed(0)

    def some(*shape: int) -> Tensor:
        return torch.randint(-128, 129, shape, generator=generator) / 64

    return {
        "x": some(2, 6, 8),
        "y": some(2, 6, 8),
        "p": some(2, 6, 8).abs() + 0.5,
        "image": some(2, 4, 8, 6),
        "square": some(3, 6, 6),
        "index": torch.randint(0, 6, (4,), generator=generator, dtype=torch.int32),
        "grid": torch.randint(0, 6, (2, 6, 8), generator=generator, dtype=torch.int32),
    }


def constant(*shape: int, seed: int = 1) -> np.ndarray:
    values = np.random.default_rng(seed).integers(-64, 65, shape) / 64
    return values.astype(np.float32)


def binary(operator: str, expected: Callable[[Tensor, Tensor], Tensor], b: str = "y") -> Case:
    return Case(operator, lambda mb, i, f: getattr(mb, operator)(x=i["x"], y=i[b]), lambda i: expected(i["x"], i[b]))


def unary(operator: str, expected: Callable[[Tensor], Tensor], a: str = "x", **options: float) -> Case:
    def build(mb: Any, i: Given, f: Any) -> Any:
        return getattr(mb, operator)(x=i[a], **{name: f(value) for name, value in options.items()})

    return Case(operator, build, lambda i: expected(i[a]))


def reduced(operator: str, expected: Callable[[Tensor], Tensor], a: str = "x") -> Case:
    def build(mb: Any, i: Given, f: Any) -> Any:
        return getattr(mb, operator)(x=i[a], axes=[1, -1], keep_dims=True)

    return Case(operator, build, lambda i: expected(i[a]))


def moved(operator: str, expected: Callable[[Tensor], Any], label: str = "", a: str = "x", **options: Any) -> Case:
    return Case(operator, lambda mb, i, f: getattr(mb, operator)(x=i[a], **options), lambda i: expected(i[a]), label)
