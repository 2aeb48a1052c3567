"""Integer weights with a scale for each block of a row, put into a fixed-point ONNX model.

    W_quantized [N,K,1,1] -> DequantizeLinear(scale [N], axis 0) -> Conv
    ==>
    w int4 [N,K,1,1] -> DequantizeLinear(scale [N,K/g,1,1], axis 1, block_size g) -> Conv

ONNX Runtime's quantiser knows one scale per channel, so it is given such a grid, and what it makes of these weights is
replaced by the integers that the graph had. Qualcomm's compiler stores the form as its block quantisation: measured on
1,024 x 1,024 weights, 4.5 bits a weight in the context, outputs within 1e-3 of their largest value. Legality: 4-bit
weights of convolutions. Exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from edgec.backends.qnn.float_weights import IntegerGrid

_QUANTIZED = "_quantized"


def place_blocks(model: Any, source: Any, weights: Mapping[str, IntegerGrid]) -> None:
    """Replace the weights that have a scale for each block.

    Args:
        model: fixed-point ONNX, with one scale for each channel of these weights; edited.
        source: the float ONNX model that it was made from, with its values.
        weights: grids of initializers, by name.
    """
    from onnx import numpy_helper

    floats = {tensor.name: tensor for tensor in source.graph.initializer}
    readers = {node.input[0]: node for node in model.graph.node if node.op_type == "DequantizeLinear"}
    for name, grid in weights.items():
        if grid.blocks > 1 and name in floats:
            value = torch.from_numpy(numpy_helper.to_array(floats[name]).copy())
            _place(model, readers[f"{name}{_QUANTIZED}"], name, block_integers(value, grid), grid)


def block_integers(value: Tensor, grid: IntegerGrid) -> Tensor:
    """The integers of a weight [N, K, 1, 1] that a grid made, int8 [N, K]."""
    parts = value.reshape(*grid.scale.shape, -1)
    return (parts / grid.scale[..., None]).round().to(torch.int8).reshape(len(value), -1)


def _place(model: Any, reader: Any, name: str, integers: Tensor, grid: IntegerGrid) -> None:
    """Let a DequantizeLinear read integers and the scales of their blocks."""
    from onnx import TensorProto, helper, numpy_helper

    rows, width = integers.shape
    old = {reader.input[0], *reader.input[1:]}
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in old]
    held = TensorProto(name=f"{name}_blocks", data_type=TensorProto.INT4, dims=[rows, width, 1, 1])
    held.raw_data = packed_nibbles(integers)
    scale = numpy_helper.from_array(grid.scale[:, :, None, None].numpy(), f"{name}_block_scales")
    del model.graph.initializer[:]
    model.graph.initializer.extend([*kept, held, scale])
    reader.input[:] = [held.name, scale.name]
    del reader.attribute[:]
    reader.attribute.extend(
        [helper.make_attribute("axis", 1), helper.make_attribute("block_size", width // grid.blocks)]
    )


def packed_nibbles(integers: Tensor) -> bytes:
    """Integers from -8 to 7 as ONNX stores them: two to a byte, the first in its low half."""
    flat = torch.nn.functional.pad(integers.reshape(-1), (0, integers.numel() % 2)).view(torch.uint8) & 0xF
    packed: bytes = (flat[::2] | (flat[1::2] << 4)).numpy().tobytes()
    return packed
