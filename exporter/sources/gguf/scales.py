"""The scales of a GGUF tensor's blocks, read alone: whether all are numbers, and whether float16 holds powers of two.

Of each block two to four bytes are looked at, some million blocks at a time, before anything is made of the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.gguf_header import GgufTensor
from edgec.exporter.sources.gguf.blocks import HALF_BIAS
from edgec.exporter.sources.gguf.rows import check_finite

_AT_ONCE = 1 << 26
_EXPONENT = 0x7C00
"""The bits of a float16 that are all set where it is infinite or not a number."""
_HALVES: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("Q4_0", "Q5_0", "Q8_0", "IQ4_NL", "IQ4_XS"), (0,)),
    **dict.fromkeys(("Q4_1", "Q5_1", "Q4_K", "Q5_K"), (0, 2)),
    **{"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,), "TQ1_0": (52,), "TQ2_0": (64,)},
}
"""Where the float16 scales and minimums of a block lie."""
_POWERS = "MXFP4"
_NOT_A_NUMBER = 255


def check_scales(tensor: GgufTensor) -> None:
    """Refuse scales and minimums that are infinite or not numbers.

    Raises:
        InputError: E812.
    """
    places = _HALVES.get(tensor.type, ())
    for blocks in _blocks(tensor) if places or tensor.type == _POWERS else ():
        if tensor.type == _POWERS:
            check_finite(tensor, not bool((blocks[:, 0] == _NOT_A_NUMBER).any()))
        for at in places:
            # All these blocks have an even number of bytes.
            halves = blocks.view(np.uint16)[:, at // 2]
            check_finite(tensor, not bool((halves & _EXPONENT == _EXPONENT).any()))


def float16_holds(tensor: GgufTensor) -> bool:
    """Whether float16 holds the scale of each block; of a type with powers of two, those of blocks that are not 0."""
    if tensor.type != _POWERS:
        return True
    for blocks in _blocks(tensor):
        power = blocks[:, 0].astype(np.int16) - HALF_BIAS
        beyond = blocks[(power < -24) | (power > 15), 1:]
        # Of the four bits of a value the highest is its sign.
        if (beyond & 0x77).any():
            return False
    return True


def _blocks(tensor: GgufTensor) -> Iterator[NDArray[np.uint8]]:
    """Some blocks after the other, uint8 [n, bytes of a block], each a mapping of its own that ends with its use."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    values, size = GGML_QUANT_SIZES[GGMLQuantizationType[tensor.type]]
    blocks, step = prod(tensor.shape) // values, _AT_ONCE // size
    for start in range(0, blocks, step):
        shape = (min(step, blocks - start), size)
        yield np.memmap(tensor.file, np.uint8, "r", tensor.offset + start * size, shape)
