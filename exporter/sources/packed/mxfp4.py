"""MXFP4: floats of four bits, 32 of which share a power of two.

    X_blocks       uint8 [E, N, G, 16], X_scales uint8 [E, N, G]     gpt-oss; the parameter X is [E, K, N]; a captured
                                                                      graph reads it as [E * N, K], as it is stored
    weight_packed  uint8 [N, K / 2], weight_scale uint8 [N, G]       compressed-tensors; the parameter is [N, K]

A byte holds two values, the lower half first. A value is a half of -12 to 12, so that integers of five bits under half
the power of two hold it exactly. Source: OCP Microscaling Formats 1.0; transformers ``integrations/mxfp4.py``.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from edgec.exporter.sources.packed.faults import bad_tensors
from edgec.exporter.sources.packed.floats import POWERS, numbers
from edgec.exporter.sources.packed.integer_groups import IntegerGroups, whole_groups
from edgec.exporter.sources.packed.parts import Parts
from edgec.exporter.sources.packed.weights import FileWeights, PackedTensor, integer_tensor
from edgec.ir.row_tensor import ChosenRows
from edgec.ir.stored_forms import MXFP4, MXFP4_INTEGERS

GROUP = 32
_BLOCKS, _SCALES = "_blocks", "_scales"
_DOUBLED = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


def mxfp4_tensors(weights: FileWeights) -> dict[str, PackedTensor]:
    """The quantised experts of a gpt-oss checkpoint by parameter.

    Raises:
        InputError: E816, E818, what is stored contradicts itself.
    """
    names = [name.removesuffix(_BLOCKS) for name in weights.names() if name.endswith(_BLOCKS)]
    return {name: _experts(weights, name) for name in names}


def _experts(weights: FileWeights, name: str) -> PackedTensor:
    module, _, leaf = name.rpartition(".")
    parts = Parts(weights, module)
    shape = parts.entry(leaf + _BLOCKS, (torch.uint8,), 4).shape
    if shape[3] != GROUP // 2:
        raise bad_tensors(name + _BLOCKS, f"its blocks have {shape[3]} bytes; 16 hold 32 values")
    scales = parts.shaped(leaf + _SCALES, POWERS, shape[:3])
    read = partial(_codes, parts, leaf + _BLOCKS, shape[0] * shape[1])
    integers = _integers(name, read, scales.reshape(shape[0] * shape[1], -1), shape[2] * GROUP)

    def values() -> Tensor:
        # A view: capture turns it once more, and the rows of each expert lie as they are stored.
        return integers.values().view(*shape[:2], -1).transpose(1, 2)

    used = parts.names(leaf + _BLOCKS, leaf + _SCALES)
    size = sum(weights.names()[each].nbytes for each in used)
    scheme, reason = integers.kept(MXFP4_INTEGERS)
    turned = (shape[0], shape[2] * GROUP, shape[1])
    return PackedTensor(MXFP4, turned, used, size, values, integers, scheme, reason)


def mxfp4_tensor(parts: Parts) -> PackedTensor:
    """A matrix of compressed-tensors. Raises E816, E818."""
    rows, size = parts.entry("weight_packed", (torch.uint8,)).shape
    if size % (GROUP // 2):
        raise bad_tensors(f"{parts.module}.weight_packed", f"rows of {2 * size} values are not whole groups of 32")
    scales = parts.shaped("weight_scale", POWERS, (rows, size * 2 // GROUP))
    integers = _integers(parts.parameter, partial(_codes, parts, "weight_packed", rows), scales, 2 * size)
    used = parts.names("weight_packed", "weight_scale", "weight_shape")
    return integer_tensor(parts.weights.names(), used, integers, MXFP4_INTEGERS, MXFP4)


def _integers(name: str, read: partial[Tensor], scales: Tensor, width: int) -> IntegerGroups:
    halved = numbers(scales) / 2
    return IntegerGroups(name, read, halved, None, whole_groups(width, GROUP), MXFP4_INTEGERS.bits)


def _codes(parts: Parts, name: str, rows: int, chosen: ChosenRows) -> Tensor:
    """Twice the values of some of the rows, int8 [n, K]."""
    packed, table = parts.tensor(name).reshape(rows, -1)[chosen], torch.tensor(_DOUBLED, dtype=torch.int8)
    codes = torch.empty(len(packed), packed.shape[1], 2, dtype=torch.int8)
    codes[:, :, 0], codes[:, :, 1] = table[(packed & 15).int()], table[(packed >> 4).int()]
    return codes.flatten(1)
