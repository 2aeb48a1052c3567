"""AWQ as autoawq stores it for GEMM kernels.

    qweight  int32 [K, N / 8]    integers from 0 on, of eight outputs in the order 0, 2, 4, 6, 1, 3, 5, 7, lowest first
    qzeros   int32 [G, N / 8]    zero points in the same order
    scales   float16 [G, N]

A value is scale * (integer - zero point); kernels round that product to float16, edgec does not.
Source: AutoAWQ ``awq/modules/linear/gemm.py`` and ``awq/utils/packing_utils.py``.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from pydantic import BaseModel, Field
from torch import Tensor

from edgec.exporter.sources.packed.faults import bad_tensors
from edgec.exporter.sources.packed.integer_groups import IntegerGroups, whole_groups
from edgec.exporter.sources.packed.parts import FLOATS, Parts, entries_of, modules_with
from edgec.exporter.sources.packed.weights import FileWeights, PackedTensor, integer_tensor
from edgec.exporter.sources.packed.words import unpacked
from edgec.ir.row_tensor import ChosenRows
from edgec.ir.stored_forms import AWQ, PackedForm

BITS, _TOGETHER, _MIDDLE = 4, 8, 8
# Where in a word each of eight outputs lies: the order above, turned around.
_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)


class AwqSettings(BaseModel):
    """What an AWQ checkpoint says of itself.

    Attributes:
        bits: of an integer.
        group_size: input columns that share a scale; -1: all.
        zero_point: groups have zero points.
    """

    bits: Literal[4]
    group_size: int = Field(default=128, ge=-1, le=1 << 20)
    zero_point: bool = True


def awq_tensors(weights: FileWeights, settings: AwqSettings) -> dict[str, PackedTensor]:
    """The quantised matrices of a checkpoint by parameter.

    Raises:
        InputError: E816 to E818, what is stored contradicts itself or the settings.
    """
    return {parts.parameter: _tensor(parts, settings) for parts in modules_with(weights, "qweight")}


def _tensor(parts: Parts, settings: AwqSettings) -> PackedTensor:
    width, words = parts.entry("qweight", (torch.int32,)).shape
    outputs, groups = words * _TOGETHER, whole_groups(width, settings.group_size)
    count = int(groups[-1]) + 1
    zero = _unpacked(parts.shaped("qzeros", (torch.int32,), (count, words)))
    scales = parts.shaped("scales", FLOATS, (count, outputs))
    symmetric = bool((zero == _MIDDLE).all())
    if not settings.zero_point and not symmetric:
        raise bad_tensors(f"{parts.module}.qzeros", f"zero_point is off, and zero points are not all {_MIDDLE}")
    read = partial(_codes, parts, symmetric)
    zeros = None if symmetric else zero.t().to(torch.int16)
    integers = IntegerGroups(parts.parameter, read, scales.t(), zeros, groups, BITS)
    used, form = parts.names("qweight", "qzeros", "scales"), PackedForm.of(AWQ, BITS, symmetric)
    return integer_tensor(entries_of(parts), used, integers, form)


def _unpacked(words: Tensor) -> Tensor:
    """uint8 [rows, 8 * words], in the order of the outputs."""
    mixed = unpacked(words, BITS, words.shape[1] * _TOGETHER).unflatten(1, (-1, _TOGETHER))
    result: Tensor = mixed[:, :, list(_PLACES)].flatten(1)
    return result


def _codes(parts: Parts, symmetric: bool, rows: ChosenRows) -> Tensor:
    """The integers of some outputs, int8 [n, K]: each lies at its place in a word of eight."""
    stored = parts.tensor("qweight")
    ids = torch.arange(stored.shape[1] * _TOGETHER)[rows]
    shifts = BITS * torch.tensor(_PLACES, dtype=torch.int32)[ids % _TOGETHER]
    codes = ((stored[:, ids // _TOGETHER] >> shifts) & (1 << BITS) - 1).to(torch.int8).t().contiguous()
    return codes - _MIDDLE if symmetric else codes
