"""compressed-tensors, as llm-compressor and others store it.

    pack-quantized   weight_packed int32 [N, K * bits / 32], weight_scale [N, G], weight_shape int [2]; perhaps
                     weight_zero_point int32 [N * bits / 32, G] and weight_g_idx int32 [K]
    int-quantized    weight int8 [N, K], weight_scale [N, 1], [N, G] or [1]; perhaps weight_zero_point int8 like it
    float-quantized  weight float8 [N, K], weight_scale [N, 1], [1] or of blocks
    naive-quantized  one of the last two
    mxfp4-pack-quantized  packed_mxfp4.py

Integers lie around 0, packed ones with half their number added. A value is scale * (integer - zero point).
Source: the package compressed-tensors, ``compressors/``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import torch
from pydantic import BaseModel, Field
from torch import Tensor

from edgec.exporter.sources.packed.faults import bad_indices, bad_tensors
from edgec.exporter.sources.packed.floats import FLOAT8, float8_tensor
from edgec.exporter.sources.packed.integer_groups import IntegerGroups, whole_groups
from edgec.exporter.sources.packed.mxfp4 import mxfp4_tensor
from edgec.exporter.sources.packed.parts import FLOATS, Parts, entries_of, modules_with
from edgec.exporter.sources.packed.weights import FileWeights, PackedTensor, integer_tensor
from edgec.exporter.sources.packed.words import unpacked, words_for
from edgec.ir.row_tensor import ChosenRows
from edgec.ir.stored_forms import COMPRESSED, PackedForm

READ_FORMATS = frozenset(
    {"pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "mxfp4-pack-quantized", "dense"}
)
_MIXED = "mixed-precision"
_WHOLE = (torch.int32, torch.int64)


class CompressedWeights(BaseModel):
    """How the weights of a group of layers are stored."""

    num_bits: int = Field(default=8, ge=1, le=8)
    type: Literal["int", "float"] = "int"
    symmetric: bool = True
    strategy: str | None = None
    group_size: int | None = None
    block_structure: tuple[int, int] | None = None


class CompressedGroup(BaseModel):
    """The layers that are stored alike."""

    weights: CompressedWeights | None = None
    format: str | None = None


class CompressedSettings(BaseModel):
    """What a checkpoint says of itself.

    Attributes:
        config_groups: layers that are stored alike.
        format: how.
        sparsity_config: how zeros are left out, which is not read.
    """

    config_groups: dict[str, CompressedGroup] = Field(min_length=1)
    format: str = "dense"
    sparsity_config: dict[str, Any] | None = None

    @property
    def stated(self) -> list[CompressedWeights]:
        """How weights are stored, by group."""
        return [group.weights for group in self.config_groups.values() if group.weights is not None]

    @property
    def unread(self) -> str:
        """A format that edgec does not read; empty where there is none."""
        named = [self.format, *(group.format for group in self.config_groups.values() if group.format)]
        sparse = str((self.sparsity_config or {}).get("format", "dense"))
        return next((each for each in (*named, sparse) if each not in READ_FORMATS and each != _MIXED), "")


def compressed_tensors(weights: FileWeights, settings: CompressedSettings) -> dict[str, PackedTensor]:
    """The quantised matrices of a checkpoint by parameter.

    Raises:
        InputError: E816 to E818, what is stored contradicts itself or the settings.
    """
    packed = {parts.parameter: _packed(parts, settings) for parts in modules_with(weights, "weight_packed")}
    others = [parts for parts in modules_with(weights, "weight_scale") if parts.parameter not in packed]
    return {**packed, **{parts.parameter: _plain(parts, settings) for parts in others}}


def _packed(parts: Parts, settings: CompressedSettings) -> PackedTensor:
    if parts.entry("weight_packed", (torch.int32, torch.uint8)).dtype == torch.uint8:
        return mxfp4_tensor(parts)
    rows, words = parts.entry("weight_packed", (torch.int32,)).shape
    shape = tuple(int(n) for n in parts.shaped("weight_shape", _WHOLE, (2,)))
    if shape[0] != rows or shape[1] < 1:
        raise bad_tensors(f"{parts.module}.weight_shape", f"it is {list(shape)}, and {rows} rows are stored")
    scheme = _scheme_of(parts, settings, shape[1], words)
    bits, half = scheme.num_bits, 1 << scheme.num_bits - 1
    scale, groups = _scales(parts, scheme, (rows, shape[1]))
    zero = _packed_zeros(parts, scheme, scale) if parts.has("weight_zero_point") or not scheme.symmetric else None
    zero = None if zero is None or bool((zero == half).all()) else zero
    read = partial(_unpacked, parts, bits, shape[1], half if zero is None else 0)
    integers = IntegerGroups(parts.parameter, read, scale, zero, groups, bits)
    used = parts.names("weight_packed", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx")
    return integer_tensor(entries_of(parts), used, integers, PackedForm.of(COMPRESSED, bits, zero is None))


def _scheme_of(parts: Parts, settings: CompressedSettings, width: int, words: int) -> CompressedWeights:
    """The stated scheme whose bits fill the stored words. Raises E816."""
    fitting = [each for each in settings.stated if each.type == "int" and words_for(width, each.num_bits) == words]
    if not fitting:
        stated = ", ".join(str(each.num_bits) for each in settings.stated)
        why = f"{words} words a row hold {32 * words / width:.3g} bits for each of {width} values; {stated} are stated"
        raise bad_tensors(f"{parts.module}.weight_packed", why)
    zeros = parts.has("weight_zero_point")
    return next((each for each in fitting if each.symmetric != zeros), fitting[0])


def _scales(parts: Parts, scheme: CompressedWeights, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The scales [N, G], and the group of each column. Raises E816, E817."""
    (rows, width), name = shape, f"{parts.module}.weight_scale"
    entry = parts.entry("weight_scale", FLOATS, None)
    scale = parts.tensor("weight_scale")
    if scale.numel() == 1:
        return scale.reshape(1, 1).expand(rows, 1).contiguous(), whole_groups(width, 0)
    size = scheme.group_size if scheme.strategy == "group" else None
    count = -(-width // size) if size and size > 0 else 1
    if entry.shape not in ((rows, count), *([(rows,)] if count == 1 else [])):
        raise bad_tensors(name, f"its shape is {list(entry.shape)}; it must be {[rows, count]}")
    groups = whole_groups(width, size or 0)
    if parts.has("weight_g_idx"):
        groups = parts.shaped("weight_g_idx", _WHOLE, (width,)).long()
        low, high = (int(end) for end in groups.aminmax())
        if low < 0 or high >= count:
            raise bad_indices(f"{parts.module}.weight_g_idx", f"it names groups {low} to {high}; there are {count}")
    return scale.reshape(rows, count), groups


def _packed_zeros(parts: Parts, scheme: CompressedWeights, scale: Tensor) -> Tensor:
    """Zero points with half the integers' number added, int16 [N, G]. Raises E816."""
    rows, count = scale.shape
    stored = parts.shaped("weight_zero_point", (torch.int32,), (words_for(rows, scheme.num_bits), count))
    return unpacked(stored.t().contiguous(), scheme.num_bits, rows).t().to(torch.int16)


def _unpacked(parts: Parts, bits: int, width: int, half: int, rows: ChosenRows) -> Tensor:
    codes = unpacked(parts.tensor("weight_packed")[rows], bits, width)
    if not half:
        return codes if bits == 8 else codes.view(torch.int8)
    # Sums of bytes wrap around, so that all of -128 .. 127 come out right.
    return (codes - half).view(torch.int8)


def _plain(parts: Parts, settings: CompressedSettings) -> PackedTensor:
    entry = parts.entry("weight", (torch.int8, *FLOAT8))
    if entry.dtype != torch.int8:
        blocks = [each.block_structure for each in settings.stated if each.type == "float"]
        return float8_tensor(parts, "weight_scale", next((block for block in blocks if block), None))
    rows, width = entry.shape
    whole = [each for each in settings.stated if each.type == "int"]
    if not whole:
        raise bad_tensors(parts.parameter, "it holds integers, and none are stated")
    scale, groups = _scales(parts, whole[0], (rows, width))
    zero = _plain_zeros(parts, scale) if parts.has("weight_zero_point") else None
    integers = IntegerGroups(parts.parameter, lambda chosen: parts.tensor("weight")[chosen], scale, zero, groups, 8)
    used = parts.names("weight", "weight_scale", "weight_zero_point")
    return integer_tensor(entries_of(parts), used, integers, PackedForm.of(COMPRESSED, 8, zero is None))


def _plain_zeros(parts: Parts, scale: Tensor) -> Tensor | None:
    """Zero points int16 [N, G]; None where all are 0. Raises E816."""
    entry = parts.entry("weight_zero_point", (torch.int8,), None)
    zero = parts.tensor("weight_zero_point")
    if zero.numel() not in (1, scale.numel()):
        raise bad_tensors(
            f"{parts.module}.weight_zero_point", f"its shape is {list(entry.shape)}; scales have {list(scale.shape)}"
        )
    whole = zero.to(torch.int16).reshape(-1).expand(scale.numel()).reshape(scale.shape)
    return whole if bool(whole.any()) else None
