"""Tell in how many bits an artifact of static methods holds a constant, from its readers in the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from edgec.ir.attributes import attribute
from edgec.ir.lut_form import DEQUANTIZE_LUT
from edgec.ir.minimum_form import DEQUANTIZE_MINIMUM
from edgec.ir.program import Program
from edgec.ir.quantized_form import DEQUANTIZE

aten = torch.ops.aten
# Where operators that look rows or values up take their indices.
_INDICES: Mapping[Any, int] = {aten.embedding.default: 1, aten.gather.default: 2, aten.index_select.default: 2}


def stored_bits(program: Program, leaf: Node, float_bits: int, index_bits: int = 0) -> int:
    """Bits of each value of a constant.

    Args:
        program: holds the constant.
        leaf: the constant's ``get_attr``.
        float_bits: bits of a float in the artifact.
        index_bits: bits of an index that fits into them, in formats that narrow indices; 0 for others.
    """
    packed = min((_packed(user, leaf, program) for user in leaf.users), default=0)
    value: Tensor = attribute(program.graph, str(leaf.target))
    if packed or value.is_floating_point():
        return packed or float_bits
    if index_bits and _are_indices(leaf, value, index_bits):
        return index_bits
    # Formats that compute in 16 bits have no integers of 64.
    return min(value.dtype.itemsize * 8, 2 * float_bits)


def _are_indices(leaf: Node, value: Tensor, bits: int) -> bool:
    """Whether a table is only read as indices, all of which fit."""
    read = all(user.target in _INDICES and user.args[_INDICES[user.target]] is leaf for user in leaf.users)
    return read and value.numel() > 0 and int(value.min()) >= 0 and int(value.max()) < 1 << bits


def _packed(user: Node, leaf: Node, program: Program) -> int:
    """Bits of a value as its reader packs it; 0 where it is not packed."""
    given: Any = user.args
    if user.target is DEQUANTIZE and given[0] is leaf:
        return int(given[6] - given[5] + 1).bit_length() - 1
    if user.target is DEQUANTIZE_MINIMUM and given[0] is leaf:
        return int(attribute(program.graph, str(leaf.target)).max()).bit_length()
    if user.target is DEQUANTIZE_LUT and given[0] is leaf:
        table: Tensor = attribute(program.graph, str(given[1].target))
        return table.shape[1].bit_length() - 1
    return 0
