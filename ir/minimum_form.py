"""Weights with a scale and a minimum for each group: the form in the graph, and the operator that reads it.

    weight_int int8 [N,K] from 0 on, weight_scale float32 [N,K/g], weight_minimum float32 [N,K/g]
      -> edgec::dequantize_minimum([1,g]) -> aten.linear | aten.embedding

A value is ``int * scale + minimum``. torchao's ``dequantize_affine`` subtracts whole numbers before it multiplies,
which holds neither GGUF's Q4_1 and K types nor a least-squares fit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from edgec.ir.operators import NAMESPACE


def dequantize_minimum(integers: Tensor, block: list[int], scale: Tensor, minimum: Tensor) -> Tensor:
    """The values that integers stand for.

    Args:
        integers: int8 [N, K].
        block: [1, g]; g divides K.
        scale: float32 [N, K / g].
        minimum: float32 [N, K / g].

    Returns:
        float32 [N, K].
    """
    groups = integers.reshape(integers.shape[0], -1, block[1]).float()
    return groups.mul_(scale.unsqueeze(2)).add_(minimum.unsqueeze(2)).view(integers.shape)


def _fake(integers: Tensor, block: list[int], scale: Tensor, minimum: Tensor) -> Tensor:
    return scale.new_empty(integers.shape)


# Kept alive: a library that is collected takes its operators along.
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
_LIBRARY.define(
    "dequantize_minimum(Tensor integers, int[] block, Tensor scale, Tensor minimum) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_LIBRARY.impl("dequantize_minimum", dequantize_minimum, "CPU")
torch.library.register_fake(f"{NAMESPACE}::dequantize_minimum", _fake, lib=_LIBRARY)
DEQUANTIZE_MINIMUM = torch.ops.edgec.dequantize_minimum.default
