"""Integers as indices into the few values that they have, for formats whose integers have 4 or 8 bits alone.

    integers int8 [N, K], between -4 and 3      ==>      indices uint8 [N, K] below 8, values (-4, .., 3)

Scales stay beside them, so that the integers are the same, bit for bit: of 2, 3, 5 and 6 bits, and the whole numbers of
a codebook, whose 8 bits hold 16 of them (IQ4_NL).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

INDEX_BITS = (1, 2, 3, 4, 6, 8)
_PLAIN_BITS, _CODEBOOK = (4, 8), 16
_AT_ONCE, _OFFSET = 1 << 20, 128


@dataclass(frozen=True)
class IndexedIntegers:
    """A matrix of integers.

    Attributes:
        indices: uint8, in its shape.
        values: int8, ascending; those that are in use.
        bits: of an index.
    """

    indices: Tensor
    values: Tensor
    bits: int


def indexed(integers: Tensor, bounds: tuple[int, int], grouped: bool) -> IndexedIntegers | None:
    """A matrix as indices, where they take fewer bits than integers of 4 or 8 do; None where these hold it as it is.

    Args:
        integers: int8, of any shape.
        bounds: the least and the largest that its form has room for; from 0 on where groups have zero points.
        grouped: several groups of a row have scales of their own. Only there a codebook hides in 8 bits.
    """
    width = (bounds[1] - bounds[0]).bit_length()
    if bounds[0] == 0 or width == _PLAIN_BITS[0] or (width == _PLAIN_BITS[1] and not grouped):
        return None
    values = _values(integers, _CODEBOOK if width == _PLAIN_BITS[1] else 1 << width)
    if values is None:
        return None
    place = torch.zeros(256, dtype=torch.uint8)
    place[values.long() + _OFFSET] = torch.arange(len(values), dtype=torch.uint8)
    indices = torch.empty(integers.shape, dtype=torch.uint8)
    for part, out in zip(integers.reshape(-1).split(_AT_ONCE), indices.view(-1).split(_AT_ONCE), strict=True):
        torch.index_select(place, 0, part.int() + _OFFSET, out=out)
    bits = next(bits for bits in INDEX_BITS if 1 << bits >= len(values))
    return IndexedIntegers(indices, values, bits)


def _values(integers: Tensor, most: int) -> Tensor | None:
    """The integers in use, int8, ascending; None where there are more than ``most``."""
    found = torch.zeros(256, dtype=torch.bool)
    for part in integers.reshape(-1).split(_AT_ONCE):
        found[part.long() + _OFFSET] = True
        if int(found.sum()) > most:
            return None
    return (found.nonzero().view(-1) - _OFFSET).to(torch.int8)
