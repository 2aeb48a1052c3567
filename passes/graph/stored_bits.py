"""Tell in how many bits an artifact of static methods holds a constant, from its readers in the graph."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.fx import Node

from edgec.ir.attributes import attribute
from edgec.ir.lut_form import DEQUANTIZE_LUT
from edgec.ir.program import Program
from edgec.ir.quantized_form import DEQUANTIZE


def stored_bits(program: Program, leaf: Node, float_bits: int) -> int:
    """Bits of each value of a constant.

    Args:
        program: holds the constant.
        leaf: the constant's ``get_attr``.
        float_bits: bits of a float in the artifact.
    """
    packed = min((_packed(user, leaf, program) for user in leaf.users), default=0)
    value: Tensor = attribute(program.graph, str(leaf.target))
    return packed or (float_bits if value.is_floating_point() else value.dtype.itemsize * 8)


def _packed(user: Node, leaf: Node, program: Program) -> int:
    """Bits of a value as its reader packs it; 0 where it is not packed."""
    given: Any = user.args
    if user.target is DEQUANTIZE and given[0] is leaf:
        return int(given[6] - given[5] + 1).bit_length() - 1
    if user.target is DEQUANTIZE_LUT and given[0] is leaf:
        table: Tensor = attribute(program.graph, str(given[1].target))
        return table.shape[1].bit_length() - 1
    return 0
