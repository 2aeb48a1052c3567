"""A ``.tflite`` whose rounded matrices are the floats that they stand for: what GPUs compute, for a CPU.

    INT8, INT4 or INT2 [N, K] with scales [N] or [N, K / g]   ==>   FLOAT32 [N, K]

LiteRT's kernels for CPUs round the inputs of layers over integers, those for GPUs do not. Over floats neither does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgec.backends.litert.operators import IntegerArray


def in_floats(content: bytes) -> bytes:
    """The model in floats, four bytes for each weight; a flatbuffer holds 2 GB at most."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    bits = {schema.TensorType.INT2: 2, schema.TensorType.INT4: 4, schema.TensorType.INT8: 8}
    made: dict[int, IntegerArray] = {}
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if (
                tensor.type in bits
                and tensor.quantization is not None
                and model.buffers[tensor.buffer].data is not None
            ):
                if tensor.buffer not in made:
                    made[tensor.buffer] = _floats(model, graph, tensor, bits[tensor.type])
                tensor.type, tensor.quantization = schema.TensorType.FLOAT32, None
    for place, values in made.items():
        model.buffers[place].data = values.view(np.uint8)
    _keep_inputs(schema, model)
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def unpacked(codes: IntegerArray, bits: int, count: int) -> IntegerArray:
    """So many integers, int8, of bytes whose low bits hold the first of them."""
    per, shift = 8 // bits, 8 - bits
    spread = np.stack([codes >> (place * bits) for place in range(per)], axis=1).reshape(-1)[:count]
    integers: IntegerArray = (spread << shift).astype(np.uint8).view(np.int8) >> shift
    return integers


def _floats(model: Any, graph: Any, tensor: Any, bits: int) -> IntegerArray:
    """What a matrix stands for, float32, flat."""
    codes = np.asarray(model.buffers[tensor.buffer].data, np.uint8)
    values = unpacked(codes, bits, int(np.prod(tensor.shape)))
    blocks = tensor.quantization.details
    if blocks is None:
        scales = np.asarray(tensor.quantization.scale, np.float32)
    else:
        held = model.buffers[graph.tensors[blocks.scales].buffer].data
        scales = np.asarray(held, np.uint8).view(np.float16).astype(np.float32)
    product: IntegerArray = values.reshape(len(scales), -1).astype(np.float32) * scales[:, None]
    return product.reshape(-1)


def _keep_inputs(schema: Any, model: Any) -> None:
    for graph in model.subgraphs:
        for operator in graph.operators:
            if getattr(operator.builtinOptions, "asymmetricQuantizeInputs", False):
                operator.builtinOptions.asymmetricQuantizeInputs = False
