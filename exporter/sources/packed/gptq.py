"""GPTQ as auto-gptq and gptqmodel store it.

    qweight  int32 [K * bits / 32, N]    integers from 0 on, along the input width, lowest bits first, also across words
    qzeros   int32 [G, N * bits / 32]    zero points, along the outputs; v1 stores each less one
    scales   float [G, N]
    g_idx    int32 [K]                   the group of each input column; without it, columns in order

A value is scale * (integer - zero point); kernels round that product to float16, edgec does not.
Source: AutoGPTQ ``nn_modules/qlinear/qlinear_cuda.py`` and gptqmodel ``nn_modules/qlinear``.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from pydantic import BaseModel, Field
from torch import Tensor

from edgec.exporter.sources.packed.faults import bad_indices, bad_tensors
from edgec.exporter.sources.packed.integer_groups import IntegerGroups, whole_groups
from edgec.exporter.sources.packed.parts import FLOATS, Parts, entries_of, modules_with
from edgec.exporter.sources.packed.weights import FileWeights, PackedTensor, integer_tensor
from edgec.exporter.sources.packed.words import unpacked, words_for
from edgec.ir.row_tensor import ChosenRows
from edgec.ir.stored_forms import GPTQ, PackedForm

V1, V2 = "gptq", "gptq_v2"
_INDEX = (torch.int32, torch.int64)


class GptqSettings(BaseModel):
    """What a GPTQ checkpoint says of itself.

    Attributes:
        bits: of an integer.
        group_size: input columns that share a scale; -1: all.
        sym: zero points are the middle of the integers.
        desc_act: columns were quantised in order of their inputs' size, and groups are of that order.
        checkpoint_format: ``gptq``, whose zero points are stored less one, or ``gptq_v2``.
    """

    bits: Literal[2, 3, 4, 8]
    group_size: int = Field(default=128, ge=-1, le=1 << 20)
    sym: bool = True
    desc_act: bool = False
    checkpoint_format: Literal["gptq", "gptq_v2"] = "gptq"


def gptq_tensors(weights: FileWeights, settings: GptqSettings) -> dict[str, PackedTensor]:
    """The quantised matrices of a checkpoint by parameter.

    Raises:
        InputError: E816 to E818, what is stored contradicts itself or the settings.
    """
    return {parts.parameter: _tensor(parts, settings) for parts in modules_with(weights, "qweight")}


def _tensor(parts: Parts, settings: GptqSettings) -> PackedTensor:
    bits = settings.bits
    words, outputs = parts.entry("qweight", (torch.int32,)).shape
    width = words * 32 // bits
    if words_for(width, bits) != words:
        raise bad_tensors(f"{parts.module}.qweight", f"{words} words hold no whole number of {bits}-bit integers")
    groups = _groups(parts, settings, width)
    count = int(groups.max()) + 1 if settings.group_size < 1 else -(-width // settings.group_size)
    zeros = parts.shaped("qzeros", (torch.int32,), (count, words_for(outputs, bits)))
    scales = parts.shaped("scales", FLOATS, (count, outputs))
    zero = _zero_points(zeros, settings, outputs)
    middle = 1 << bits - 1
    symmetric = bool((zero == middle).all())
    if settings.sym and not symmetric:
        why = f"sym is stated, and zero points are not all {middle} (as {settings.checkpoint_format} stores them)"
        raise bad_tensors(f"{parts.module}.qzeros", why)
    read = partial(_codes, parts, bits, width, middle if symmetric else 0)
    integers = IntegerGroups(parts.parameter, read, scales.t(), None if symmetric else zero.t(), groups, bits)
    used = parts.names("qweight", "qzeros", "scales", "g_idx")
    return integer_tensor(entries_of(parts), used, integers, PackedForm.of(GPTQ, bits, symmetric))


def _groups(parts: Parts, settings: GptqSettings, width: int) -> Tensor:
    """The group of each column. Raises E816, E817."""
    if not parts.has("g_idx"):
        if settings.desc_act and 0 < settings.group_size < width:
            raise bad_tensors(f"{parts.module}.g_idx", "it is missing, and desc_act is stated")
        return whole_groups(width, settings.group_size)
    groups = parts.shaped("g_idx", _INDEX, (width,)).long()
    count = 1 if settings.group_size < 1 else -(-width // settings.group_size)
    low, high = (int(end) for end in groups.aminmax())
    if low < 0 or high >= count:
        raise bad_indices(f"{parts.module}.g_idx", f"it names groups {low} to {high}; there are {count}")
    return groups


def _zero_points(zeros: Tensor, settings: GptqSettings, outputs: int) -> Tensor:
    """The zero points, int16 [G, N]; the one that v1 takes off is added within the bits, as its kernels do."""
    less = 1 if settings.checkpoint_format == V1 else 0
    return (unpacked(zeros, settings.bits, outputs).to(torch.int16) + less) & ((1 << settings.bits) - 1)


def _codes(parts: Parts, bits: int, width: int, middle: int, rows: ChosenRows) -> Tensor:
    """The integers [n, K], less the middle where that is 0: int8; those of 8 bits from 0 on: uint8."""
    codes = unpacked(parts.tensor("qweight")[:, rows].t().contiguous(), bits, width)
    if not middle:
        return codes if bits == 8 else codes.view(torch.int8)
    # Sums of bytes wrap around, so that all of -128 .. 127 come out right.
    return (codes - middle).view(torch.int8)
