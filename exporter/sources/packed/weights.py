"""The tensors of a quantised safetensors checkpoint under the names of its float form, dequantised one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from edgec.exporter.sources.files.safetensors_header import TensorEntry
from edgec.exporter.sources.packed.integer_groups import IntegerGroups
from edgec.exporter.sources.weights.streamed import Weights
from edgec.ir.row_tensor import RowTensor
from edgec.ir.stored_forms import PackedForm
from edgec.ir.weight_scheme import WeightScheme


class FileWeights(Weights, Protocol):
    """Weights of files."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files."""
        ...


@dataclass(frozen=True)
class PackedTensor:
    """One parameter in a quantised checkpoint.

    Attributes:
        form: what the report calls it (``GPTQ uint4``).
        shape: of the parameter.
        parts: the stored tensors that it is made of.
        bytes: of these.
        values: computes what it means, float32 of that shape.
        integers: the same as integers with scales, [rows of all experts, K] where it has three dimensions; None where
            it has none.
        scheme: the one that holds these bit for bit where kernels read it; None where none does.
        reason: why there is none.
    """

    form: str
    shape: tuple[int, ...]
    parts: tuple[str, ...]
    bytes: int
    values: Callable[[], Tensor]
    integers: IntegerGroups | None = None
    scheme: WeightScheme | None = None
    reason: str = ""

    @property
    def bits(self) -> float:
        """Of a weight, with what stands beside it."""
        return 8 * self.bytes / prod(self.shape)

    @property
    def columns(self) -> Tensor | None:
        """The order in which its integers have their columns, where it is not the parameter's own (act-order)."""
        return self.integers.columns if self.integers is not None and self.scheme is not None else None

    @property
    def half(self) -> bool:
        """Whether float16 holds every scale."""
        return self.integers is not None and self.integers.half


def integer_tensor(
    stored: Mapping[str, TensorEntry], parts: tuple[str, ...], integers: IntegerGroups, form: PackedForm, name: str = ""
) -> PackedTensor:
    """A matrix of integers as a parameter.

    Args:
        stored: the entries of all stored tensors.
        parts: the names of those that it is made of.
        integers: the matrix.
        form: what holds it in kernels.
        name: of the form in the checkpoint, where that is another one.
    """
    form = form if integers.columns is None else form.in_act_order
    scheme, reason = integers.kept(form)
    shape = (integers.scale.shape[0], integers.width)
    size = sum(stored[part].nbytes for part in parts)
    return PackedTensor(name or form.name, shape, parts, size, integers.values, integers, scheme, reason)


@dataclass(frozen=True)
class PackedWeights:
    """Weights by the names of the checkpoint's float form.

    Attributes:
        base: the stored tensors.
        packed: the parameters that are made of several of them, by name.
        settings: stored tensors that say how activations are to be rounded, which edgec chooses itself.
    """

    base: FileWeights
    packed: Mapping[str, PackedTensor]
    settings: frozenset[str] = frozenset()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that hold them."""
        return self.base.files

    def names(self) -> Mapping[str, TensorEntry]:
        """Every parameter's dtype and shape; that of packed ones is float32."""
        return self._entries

    def rows(self, name: str) -> RowTensor | None:
        """One matrix of integers as rows that are made when they are read; None for any other tensor."""
        tensor = self.packed.get(name)
        if tensor is None or tensor.integers is None or len(tensor.shape) != 2:
            return None
        return tensor.integers.value_rows()

    def tensor(self, name: str) -> Tensor:
        """One tensor: a view of the file where it is stored as it is, else computed anew at each call."""
        return self.packed[name].values() if name in self.packed else self.base.tensor(name)

    @cached_property
    def _entries(self) -> dict[str, TensorEntry]:
        used = {part for tensor in self.packed.values() for part in tensor.parts} | self.settings
        plain = {name: entry for name, entry in self.base.names().items() if name not in used}
        return {**plain, **{name: TensorEntry(torch.float32, t.shape) for name, t in self.packed.items()}}
