"""Quantised matrices that the model's class reads joined, such as the gates and ups of all experts, as one matrix.

transformers' own conversion joins them (``weight_conversion.py``): rows and experts are placed, columns stay. So it
joins integers, scales and zero points as it does values, and nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from edgec.exporter.sources.packed.weights import PackedTensor, PackedWeights
from edgec.exporter.sources.weights.conversion import ConvertedWeights
from edgec.ir.weight_scheme import WeightScheme

_JOINED = "they are joined, and are not all stored alike"


@dataclass(frozen=True)
class JoinedMatrices:
    """One parameter of the model.

    Attributes:
        converted: the weights that join it.
        name: there.
        parts: the stored matrices, by their names.
    """

    converted: ConvertedWeights
    name: str
    parts: Mapping[str, PackedTensor]

    @property
    def form(self) -> str:
        """What the report calls it: the forms of its parts."""
        return ", ".join(sorted({part.form for part in self.parts.values()}))

    @property
    def bytes(self) -> int:
        """Of all parts in the checkpoint."""
        return sum(part.bytes for part in self.parts.values())

    @property
    def bits(self) -> float:
        """Of a weight, with what stands beside it."""
        return max(part.bits for part in self.parts.values())

    @property
    def scheme(self) -> WeightScheme | None:
        """The scheme that holds all parts; None where they differ, or columns do not stay where they are."""
        schemes = {None if part.columns is not None else part.scheme for part in self.parts.values()}
        same_width = {part.shape[-1] for part in self.parts.values()} == {self.converted.names()[self.name].shape[-1]}
        return next(iter(schemes)) if len(schemes) == 1 and same_width and len(self.parts) == self._sources else None

    @property
    def half(self) -> bool:
        """Whether float16 holds every scale."""
        return all(part.half for part in self.parts.values())

    @property
    def reason(self) -> str:
        """Why there is no scheme."""
        return next((part.reason for part in self.parts.values() if part.reason), _JOINED)

    def values(self) -> Tensor:
        """What it means, float32 in the parameter's shape."""
        return self.converted.tensor(self.name)

    def grid(self) -> tuple[Tensor, Tensor, Tensor]:
        """Integers int8 [rows, K], scales, and minimums or zero points, [rows, K / g], of all parts."""
        assert self.scheme is not None
        grids = {name: _grid(part) for name, part in self.parts.items()}
        joined = [self.converted.joined(self.name, {n: grid[i] for n, grid in grids.items()}) for i in range(3)]
        integers, scale, beside = (each.reshape(-1, each.shape[-1]) for each in joined)
        return integers, scale, beside

    @property
    def _sources(self) -> int:
        return len(self.converted.fused[self.name].sources)


def _grid(part: PackedTensor) -> tuple[Tensor, Tensor, Tensor]:
    assert part.integers is not None and part.scheme is not None
    return part.integers.grid(part.scheme)


def joined_matrices(converted: ConvertedWeights, base: PackedWeights) -> dict[str, JoinedMatrices]:
    """The joined parameters of which any part is quantised, by their names after conversion."""
    found = {}
    for name, fusion in converted.fused.items():
        parts = {stored: base.packed[stored] for _, stored in fusion.sources if stored in base.packed}
        if parts:
            found[name] = JoinedMatrices(converted, name, parts)
    return found
