"""The stored tensors of one quantised matrix, checked as they are fetched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from edgec.exporter.sources.files.safetensors_header import TensorEntry
from edgec.exporter.sources.packed.faults import bad_tensors
from edgec.exporter.sources.packed.weights import FileWeights

FLOATS = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True)
class Parts:
    """What belongs to one module.

    Attributes:
        weights: of the whole checkpoint.
        module: its name, before the dot.
    """

    weights: FileWeights
    module: str

    @property
    def parameter(self) -> str:
        """The name of its matrix in the checkpoint's float form."""
        return f"{self.module}.weight"

    def has(self, part: str) -> bool:
        """Whether a tensor is stored."""
        return f"{self.module}.{part}" in self.weights.names()

    def entry(self, part: str, dtypes: tuple[torch.dtype, ...], dims: int | None = 2) -> TensorEntry:
        """A stored tensor's shape.

        Raises:
            InputError: E816, it is absent, or of another dtype or rank (None: any).
        """
        name = f"{self.module}.{part}"
        entry = self.weights.names().get(name)
        if entry is None:
            raise bad_tensors(name, "it is missing")
        if entry.dtype not in dtypes or (dims is not None and len(entry.shape) != dims):
            wanted = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
            ranked = "" if dims is None else f" of {dims} dimensions"
            held = f"{str(entry.dtype).removeprefix('torch.')} {list(entry.shape)}"
            raise bad_tensors(name, f"it is {held}; it must be {wanted}{ranked}")
        if not all(entry.shape):
            raise bad_tensors(name, f"it is empty: {list(entry.shape)}")
        return entry

    def shaped(self, part: str, dtypes: tuple[torch.dtype, ...], shape: tuple[int, ...]) -> Tensor:
        """A stored tensor that must have a shape. Raises E816."""
        entry = self.entry(part, dtypes, len(shape))
        if entry.shape != shape:
            raise bad_tensors(f"{self.module}.{part}", f"its shape is {list(entry.shape)}; it must be {list(shape)}")
        return self.tensor(part)

    def tensor(self, part: str) -> Tensor:
        """A stored tensor, as a view of its file."""
        return self.weights.tensor(f"{self.module}.{part}")

    def names(self, *parts: str) -> tuple[str, ...]:
        """The full names of those that are stored."""
        return tuple(f"{self.module}.{part}" for part in parts if self.has(part))


def modules_with(weights: FileWeights, part: str) -> list[Parts]:
    """The modules that have a tensor of this name, in the order of the checkpoint."""
    ending = f".{part}"
    return [Parts(weights, name.removesuffix(ending)) for name in weights.names() if name.endswith(ending)]


def entries_of(parts: Parts) -> Mapping[str, TensorEntry]:
    """The entries of all stored tensors."""
    return parts.weights.names()
