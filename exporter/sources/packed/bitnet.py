"""Ternary matrices as transformers' bitnet quantisation stores them.

    weight        uint8 [N / 4, K]    four rows in a byte, a quarter of all apart, the first lowest: -1 is 0, 1 is 2
    weight_scale  float [1]           bitlinear divides by it, autobitlinear multiplies

Source: transformers ``integrations/bitnet.py``, which also rounds each token's inputs to 8 bits.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from pydantic import BaseModel
from torch import Tensor

from edgec.exporter.sources.packed.faults import bad_codes
from edgec.exporter.sources.packed.integer_groups import IntegerGroups, check_scales, whole_groups
from edgec.exporter.sources.packed.parts import FLOATS, Parts, entries_of, modules_with
from edgec.exporter.sources.packed.weights import FileWeights, PackedTensor, integer_tensor
from edgec.ir.row_tensor import ChosenRows
from edgec.ir.stored_forms import PACKED_FORMS, TERNARY

_ROWS, _LEVELS = 4, 3


class BitnetSettings(BaseModel):
    """What a bitnet checkpoint says of itself.

    Attributes:
        linear_class: whether outputs are divided by the scale or multiplied with it.
        quantization_mode: whether weights are stored packed; ``online``: as floats that each pass rounds.
        use_rms_norm: layers have a norm of their own, which the model's class has not.
    """

    linear_class: Literal["bitlinear", "autobitlinear"] = "bitlinear"
    quantization_mode: Literal["offline", "online"] = "offline"
    use_rms_norm: bool = False


def bitnet_tensors(weights: FileWeights, settings: BitnetSettings) -> dict[str, PackedTensor]:
    """The ternary matrices of a checkpoint by parameter.

    Raises:
        InputError: E816, E818, E819, what is stored contradicts itself.
    """
    divides = settings.linear_class == "bitlinear"
    return {parts.parameter: _tensor(parts, divides) for parts in modules_with(weights, "weight_scale")}


def _tensor(parts: Parts, divides: bool) -> PackedTensor:
    packed_rows, width = parts.entry("weight", (torch.uint8,)).shape
    stored = parts.shaped("weight_scale", FLOATS, (1,)).float()
    check_scales(f"{parts.module}.weight_scale", stored)
    scale = (1.0 / stored if divides else stored).reshape(1, 1).expand(packed_rows * _ROWS, 1).contiguous()
    integers = IntegerGroups(parts.parameter, partial(_codes, parts), scale, None, whole_groups(width, 0), 2)
    return integer_tensor(entries_of(parts), parts.names("weight", "weight_scale"), integers, PACKED_FORMS[TERNARY])


def _codes(parts: Parts, rows: ChosenRows) -> Tensor:
    """-1, 0 and 1 of some rows: int8 [n, K]."""
    packed = parts.tensor("weight")
    ids = torch.arange(_ROWS * len(packed))[rows]
    shifts = (2 * (ids // len(packed))).to(torch.uint8)[:, None]
    codes = (packed[ids % len(packed)] >> shifts & 3).view(torch.int8)
    if bool((codes == _LEVELS).any()):
        raise bad_codes(parts.parameter, "some codes are 3; 0, 1 and 2 stand for -1, 0 and 1")
    return codes - 1
