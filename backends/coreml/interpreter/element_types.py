"""The element types of MIL: how many bits they take in a file and how a tensor holds them here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class ElementType:
    """An element type of MIL.

    Attributes:
        name: MIL's own, as ``cast`` spells it.
        bits: in a weight file; below 8 the values are packed, least significant bit first.
        signed: for integers.
        held: the torch dtype here; 16- and 32-bit unsigned integers are held in the next wider signed one.
    """

    name: str
    bits: int
    signed: bool
    held: torch.dtype

    @property
    def packed(self) -> bool:
        """Several values share a byte."""
        return self.bits < 8 and self.name != "bool"


STRING = 2
_ROWS: Mapping[int, ElementType] = {
    1: ElementType("bool", 8, False, torch.bool),
    10: ElementType("fp16", 16, True, torch.float16),
    11: ElementType("fp32", 32, True, torch.float32),
    12: ElementType("fp64", 64, True, torch.float64),
    13: ElementType("bf16", 16, True, torch.bfloat16),
    21: ElementType("int8", 8, True, torch.int8),
    22: ElementType("int16", 16, True, torch.int16),
    23: ElementType("int32", 32, True, torch.int32),
    24: ElementType("int64", 64, True, torch.int64),
    25: ElementType("int4", 4, True, torch.int8),
    31: ElementType("uint8", 8, False, torch.uint8),
    32: ElementType("uint16", 16, False, torch.int32),
    33: ElementType("uint32", 32, False, torch.int64),
    34: ElementType("uint64", 64, False, torch.int64),
    35: ElementType("uint4", 4, False, torch.uint8),
    36: ElementType("uint2", 2, False, torch.uint8),
    37: ElementType("uint1", 1, False, torch.uint8),
    38: ElementType("uint6", 6, False, torch.uint8),
    39: ElementType("uint3", 3, False, torch.uint8),
    40: ElementType("fp8e4m3fn", 8, True, torch.float8_e4m3fn),
    41: ElementType("fp8e5m2", 8, True, torch.float8_e5m2),
}
BY_NUMBER = _ROWS
BY_NAME: Mapping[str, ElementType] = {row.name: row for row in _ROWS.values()}
