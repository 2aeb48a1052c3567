"""A ``.tflite`` whose rounded matrices are the floats that they stand for: what GPUs compute, for a CPU.

    INT8, INT4 or INT2 [N, K] with scales [N] or [N, K / g]   ==>   FLOAT32 [N, K]

LiteRT's kernels for CPUs round the inputs of layers over integers, those for GPUs do not. Over floats neither does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgec.backends.coreml.interpreter.blob import unpacked
from edgec.backends.litert.operators import IntegerArray
from edgec.backends.litert.weights import read_model, written_model


def in_floats(content: bytes) -> bytes:
    """The model in floats, four bytes for each weight; a flatbuffer holds 2 GB at most."""
    schema, model = read_model(content)
    bits = {schema.TensorType.INT2: 2, schema.TensorType.INT4: 4, schema.TensorType.INT8: 8}
    made: dict[int, IntegerArray] = {}
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            stored = model.buffers[tensor.buffer].data
            if tensor.type not in bits or tensor.quantization is None or stored is None:
                continue
            if tensor.buffer not in made:
                made[tensor.buffer] = _floats(model, graph, tensor, bits[tensor.type])
            tensor.type, tensor.quantization = schema.TensorType.FLOAT32, None
    for place, values in made.items():
        model.buffers[place].data = values.view(np.uint8)
    return written_model(model, len(content))


def _floats(model: Any, graph: Any, tensor: Any, bits: int) -> IntegerArray:
    """What a matrix stands for, float32, flat."""
    codes = np.asarray(model.buffers[tensor.buffer].data, np.uint8)
    values = unpacked(codes, bits, int(np.prod(tensor.shape)), signed=True)
    blocks = tensor.quantization.details
    if blocks is None:
        scales = np.asarray(tensor.quantization.scale, np.float32)
    else:
        held = model.buffers[graph.tensors[blocks.scales].buffer].data
        scales = np.asarray(held, np.uint8).view(np.float16).astype(np.float32)
    product: IntegerArray = values.reshape(len(scales), -1).astype(np.float32) * scales[:, None]
    return product.reshape(-1)
