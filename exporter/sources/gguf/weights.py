"""The tensors of a GGUF file under a model's parameter names, dequantised one at a time from the mapped file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import torch

from edgec.bundle.gguf_header import GgufTensor
from edgec.exporter.sources.files.mapped_pieces import MappedPieces, pieces_by_file
from edgec.exporter.sources.files.safetensors_header import TensorEntry
from edgec.exporter.sources.gguf.architectures import Architecture
from edgec.exporter.sources.gguf.blocks import IntegerBlocks, integer_blocks, joined_blocks
from edgec.exporter.sources.gguf.config import architecture_of
from edgec.exporter.sources.gguf.file import GgufFile
from edgec.exporter.sources.gguf.metadata import ARCHITECTURE
from edgec.exporter.sources.gguf.rotation import FACTORS, LONG, SHORT
from edgec.exporter.sources.gguf.row_tensors import StoredRows
from edgec.exporter.sources.gguf.rows import check_finite, float_values
from edgec.exporter.sources.gguf.scales import float16_holds

_PLAIN: Mapping[str, torch.dtype] = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
# What the config was computed from, or what any model computes itself.
_COMPUTED = re.compile(rf"{re.escape(FACTORS)}|{re.escape(LONG)}|{re.escape(SHORT)}|blk\.\d+\.attn_rot_embd\.weight")
_TURNED = re.compile(r"\.attn_(q|k)\.(weight|bias)$")
_NORM = re.compile(r"norm\.weight$")
_LAYER = re.compile(r"\.layers\.(\d+)\.")
_JOINED, _SUFFIXES = ".experts.gate_up_proj", (".weight", ".bias")
_CHECKED = 1 << 22


@dataclass(frozen=True)
class GgufParameter:
    """How one parameter is made of stored tensors.

    Attributes:
        parts: the tensors, joined along the dimension before the last.
        shape: of the parameter.
        heads: rows of each of so many heads lie in pairs, which belong half a head apart; 0: they lie as they should.
        centred: one is taken off every value.
    """

    parts: tuple[GgufTensor, ...]
    shape: tuple[int, ...]
    heads: int = 0
    centred: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """The stored dtype where values are stored as they are; float32 for what is computed."""
        kinds = {part.type for part in self.parts}
        plain = len(kinds) == 1 and not self.centred
        return _PLAIN.get(kinds.pop(), torch.float32) if plain else torch.float32

    @property
    def entry(self) -> TensorEntry:
        """Its dtype and shape, and its place where it is a part of the file as it is."""
        one = self.parts[0]
        as_it_is = len(self.parts) == 1 and one.type in _PLAIN and not self.heads and not self.centred
        place = (one.file, one.offset) if as_it_is else (None, 0)
        return TensorEntry(self.dtype, self.shape, *place)


@dataclass(frozen=True)
class GgufWeights:
    """Weights by parameter name; what the model has no parameter for keeps its stored name.

    Attributes:
        files: the parts of the model.
        parameters: how each is made.
    """

    files: tuple[Path, ...]
    parameters: Mapping[str, GgufParameter]

    def names(self) -> Mapping[str, TensorEntry]:
        """Every tensor's dtype and shape, from the header."""
        return self._entries

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor: a view of the file where it is stored as it is needed, else computed anew at each call.

        Raises:
            InputError: E812, a value is infinite or not a number.
        """
        parameter, entry = self.parameters[name], self._entries[name]
        if entry.file is not None:
            view = self._pieces[entry.file].tensor(entry)
            finite = all(bool(piece.isfinite().all()) for piece in view.view(-1).split(_CHECKED))
            check_finite(parameter.parts[0], finite)
            return view
        parts = [torch.from_numpy(float_values(part)) for part in parameter.parts]
        joined = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-2)
        joined = turned(joined, parameter.heads) if parameter.heads else joined
        return (joined - 1.0 if parameter.centred else joined).to(entry.dtype).view(parameter.shape)

    def blocks(self, name: str) -> IntegerBlocks | None:
        """One tensor's integers, scales and minima as they are stored; None where it has none of that form.

        Rows of queries and keys are in the order of the parameter; dimensions beyond two are all rows but the last.
        """
        parameter = self.parameters[name]
        parts = [blocks for part in parameter.parts if (blocks := integer_blocks(part)) is not None]
        if len(parts) != len(parameter.parts) or len({part.type for part in parts}) > 1 or parameter.centred:
            return None
        whole = parts[0] if len(parts) == 1 else joined_blocks(parts, parameter.parts[0].shape[0])
        return whole.with_rows(row_order(len(whole.codes), parameter.heads)) if parameter.heads else whole

    def stored_rows(self, name: str) -> StoredRows | None:
        """One matrix as rows that are read one by one; None where it is stored as floats or in several parts."""
        parameter = self.parameters[name]
        one, shape = parameter.parts[0], parameter.shape
        if len(parameter.parts) > 1 or one.type in _PLAIN or len(shape) != 2 or one.shape != shape or parameter.centred:
            return None
        return StoredRows(one, row_order(shape[0], parameter.heads) if parameter.heads else None)

    @cached_property
    def beyond_half(self) -> frozenset[str]:
        """The parameters with a scale that float16 does not hold; only those of powers of two are looked at."""
        made = self.parameters.items()
        return frozenset(name for name, one in made if not all(float16_holds(part) for part in one.parts))

    @cached_property
    def _entries(self) -> dict[str, TensorEntry]:
        return {name: parameter.entry for name, parameter in self.parameters.items()}

    @cached_property
    def _pieces(self) -> dict[Path, MappedPieces]:
        return pieces_by_file(self._entries)


def gguf_weights(file: GgufFile, model: Any) -> GgufWeights:
    """The file's tensors under the names of a transformers model.

    Args:
        file: with the tensors.
        model: on any device; its names, shapes and config are read.
    """
    known = architecture_of(file)
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    sources = _sources(file, shapes, model.config.num_hidden_layers)
    parameters = {name: _parameter(parts, shapes[name], known, model.config) for name, parts in sources.items()}
    used = {part.name for parts in sources.values() for part in parts}
    others = [tensor for name, tensor in file.tensors.items() if name not in used and not _COMPUTED.fullmatch(name)]
    surplus = {tensor.name: GgufParameter((tensor,), tensor.shape) for tensor in others}
    return GgufWeights(file.files, {**parameters, **surplus})


def row_order(rows: int, heads: int) -> torch.Tensor:
    """The stored row of each row of a query or key: [rows] int64.

    llama.cpp pairs rows 2i and 2i + 1 of a head, and its converter moved them there; transformers pairs i with i + half
    a head.
    """
    return torch.arange(rows).view(heads, -1, 2).transpose(1, 2).reshape(-1)


def turned(stored: torch.Tensor, heads: int) -> torch.Tensor:
    """A query's or key's weight [rows, width] or bias [rows] with its rows in the order of transformers."""
    return stored[row_order(len(stored), heads)]


def _sources(file: GgufFile, shapes: Mapping[str, tuple[int, ...]], layers: int) -> dict[str, tuple[GgufTensor, ...]]:
    from gguf.constants import MODEL_ARCH_NAMES
    from gguf.tensor_mapping import get_tensor_name_map

    codes = {name: code for code, name in MODEL_ARCH_NAMES.items()}
    table = get_tensor_name_map(codes[file.metadata[ARCHITECTURE]], layers)
    names = {name: _stored_names(name, table) for name in shapes}
    found = {name: tuple(file.tensors.get(each) for each in stored) for name, stored in names.items()}
    return {name: parts for name, parts in found.items() if parts and _all_there(parts)}  # type: ignore[misc]


def _all_there(parts: Iterable[GgufTensor | None]) -> bool:
    return all(part is not None for part in parts)


def _stored_names(name: str, table: Any) -> tuple[str, ...]:
    """The names in the file of what a parameter is made of; experts' gates and ups are apart there."""
    if name.endswith(_JOINED):
        layer = _LAYER.search(name)
        return tuple(f"blk.{layer[1]}.ffn_{part}_exps.weight" for part in ("gate", "up")) if layer else ()
    stored = table.get_name(name, try_suffixes=_SUFFIXES)
    if stored is None:
        return ()
    return (stored if stored.endswith(_SUFFIXES) else f"{stored}.weight",)


def _parameter(
    parts: tuple[GgufTensor, ...], shape: tuple[int, ...], known: Architecture, config: Any
) -> GgufParameter:
    first = parts[0]
    match = _TURNED.search(first.name) if known.neighbours else None
    counts = {"q": config.num_attention_heads, "k": config.num_key_value_heads}
    heads = counts[match[1]] if match and not first.shape[0] % (2 * counts[match[1]]) else 0
    centred = known.centred_norms and _NORM.search(first.name) is not None
    rows = sum(part.shape[-2] for part in parts) if len(parts) > 1 else 0
    stored = (*first.shape[:-2], rows, first.shape[-1]) if rows else first.shape
    # Filters of convolutions are stored without their dimension of one.
    fits = prod(stored) == prod(shape) and [n for n in stored if n > 1] == [n for n in shape if n > 1]
    return GgufParameter(parts, shape if fits else stored, heads, centred)
