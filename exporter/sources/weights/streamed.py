"""Weights by name, one tensor at a time: memory-mapped from safetensors, or generated."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from pydantic import BaseModel

from edgec.bundle.limited_json import JsonKind, read_model
from edgec.errors import InputError
from edgec.exporter.sources.files.mapped_pieces import MappedPieces, pieces_by_file
from edgec.exporter.sources.files.plain_files import is_plain
from edgec.exporter.sources.files.safetensors_header import TensorEntry, corrupt, read_header

SINGLE = "model.safetensors"
# Indices of models with thousands of experts are 20 MB long.
_LARGEST_INDEX = 256 << 20
_NORMAL_STD = 0.02
# Random values are drawn in float32, this many at a time.
_DRAWN = 1 << 22
# A plain name in the same folder: an index must not reach outside it.
SHARD_NAME = re.compile(r"\w[\w.\-]{0,199}")


class Weights(Protocol):
    """Named tensors that are read or made one at a time."""

    def names(self) -> Mapping[str, TensorEntry]:
        """Every tensor's dtype, shape and place, without reading its values."""
        ...

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor on the CPU, in its stored dtype.

        Raises:
            KeyError: there is no tensor of that name.
        """
        ...


AnyWeights = TypeVar("AnyWeights", bound=Weights)


@dataclass(frozen=True)
class WeightFiles:
    """Tensors of safetensors files, mapped into memory and never copied.

    Attributes:
        files: the shards, in name order.
        entries: tensor name -> dtype, shape and place.
    """

    files: tuple[Path, ...]
    entries: Mapping[str, TensorEntry]

    def names(self) -> Mapping[str, TensorEntry]:
        """Every tensor's dtype, shape and place, from the headers."""
        return self.entries

    def tensor(self, name: str) -> torch.Tensor:
        """A view of the mapped file; writing to it changes a private copy of the page, never the file."""
        entry = self.entries[name]
        if entry.nbytes == 0:
            return torch.empty(entry.shape, dtype=entry.dtype)
        assert entry.file is not None
        return self._pieces[entry.file].tensor(entry)

    @cached_property
    def _pieces(self) -> dict[Path, MappedPieces]:
        return pieces_by_file(self.entries)


@dataclass(frozen=True)
class RandomWeights:
    """Seeded tensors for an architecture whose weights do not exist yet; each depends on seed and name alone.

    Attributes:
        shapes: tensor name -> shape.
        seed: seed of all values.
        dtype: dtype of all tensors, as a checkpoint of the architecture would store them.
        vectors: the value of those that are not ones, by name.
    """

    shapes: Mapping[str, tuple[int, ...]]
    seed: int = 0
    dtype: torch.dtype = torch.float32
    files: tuple[Path, ...] = field(default=())
    vectors: Mapping[str, float] = field(default_factory=dict)

    def names(self) -> Mapping[str, TensorEntry]:
        """Every tensor's shape; all have one dtype."""
        return {name: TensorEntry(self.dtype, shape) for name, shape in self.shapes.items()}

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor: zeros for biases, ones for norms and other vectors, else normal with standard deviation 0.02."""
        shape = self.shapes[name]
        if name.endswith("bias"):
            return torch.zeros(shape, dtype=self.dtype)
        if len(shape) < 2:
            return torch.full(shape, self.vectors.get(name, 1.0), dtype=self.dtype)
        digest = hashlib.sha256(f"{self.seed}:{name}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
        drawn = torch.empty(shape, dtype=self.dtype)
        for part in drawn.view(-1).split(_DRAWN):
            part.copy_(torch.empty(part.shape).normal_(0.0, _NORMAL_STD, generator=generator))
        return drawn


@dataclass(frozen=True)
class LoadedWeights:
    """Tensors that several readers share: each is read or made once, and held until ``let_go``.

    Attributes:
        base: the weights to hold.
        rows: tensors that stand for some of them and make rows when these are read, by name.
    """

    base: Weights
    rows: Mapping[str, torch.Tensor] = field(default_factory=dict)
    _held: dict[str, torch.Tensor] = field(default_factory=dict, repr=False, compare=False)

    def names(self) -> Mapping[str, TensorEntry]:
        """Every tensor's dtype, shape and place, without reading its values."""
        return self.base.names()

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor, the same at every call."""
        if name not in self._held:
            self._held[name] = self.rows[name] if name in self.rows else self.base.tensor(name)
        return self._held[name]

    def let_go(self) -> None:
        """Stop holding tensors; from now on only the readers do."""
        self._held.clear()


def open_files(files: tuple[Path, ...]) -> WeightFiles:
    """The tensors of the given safetensors files.

    Raises:
        InputError: E105, a file is corrupt or two files hold the same tensor.
    """
    entries: dict[str, TensorEntry] = {}
    for file in files:
        for name, entry in read_header(file).items():
            if name in entries:
                raise corrupt(file, f"tensor {name!r} is also in {entries[name].file}")
            entries[name] = entry
    return WeightFiles(files, entries)


def no_weights(where: Path, why: str) -> InputError:
    """The error for a model folder without (all of) its weights."""
    return InputError(
        what="The model's weights are missing.",
        where=str(where),
        why=why,
        fix="Copy or download the missing files, or pass --random-weights to try the architecture without them.",
        code="E112",
    )


def open_indexed(index: Path, opener: Callable[[tuple[Path, ...]], AnyWeights]) -> AnyWeights:
    """The tensors of the shards that an index lists.

    Args:
        index: the file.
        opener: opens files of its kind.

    Raises:
        InputError: E105, the index is damaged or contradicts a shard; E112, a shard is missing; E125.
    """
    table, folder = _weight_map(index), index.parent
    files = tuple(folder / name for name in sorted(set(table.values())))
    missing = [file.name for file in files if not is_plain(file)]
    if missing:
        raise no_weights(folder, f"{len(missing)} of {len(files)} shards are absent: {', '.join(missing[:3])}")
    weights = opener(files)
    entries = weights.names()
    for name, file in table.items():
        entry = entries.get(name)
        if entry is None or entry.file not in (None, folder / file):
            raise corrupt(folder / file, f"{index.name} says that it holds {name!r}, but it does not")
    return weights


def shard_files(index: Path) -> tuple[Path, ...]:
    """The files that an index lists, in name order, whether they are there or not. Raises E105."""
    return tuple(index.parent / name for name in sorted(set(_weight_map(index).values())))


class _Index(BaseModel):
    weight_map: dict[str, str]


def _weight_map(index: Path) -> dict[str, str]:
    refused = corrupt(index, "it is not an index of shards")
    kind = JsonKind(refused.what, refused.fix, refused.code, max_bytes=_LARGEST_INDEX)
    table = read_model(index, _Index, kind).weight_map
    bad = [file for file in table.values() if not SHARD_NAME.fullmatch(file)]
    if bad or not table:
        raise corrupt(index, f"{bad[0]!r} is not the name of a shard" if bad else "it lists no tensors")
    return table
