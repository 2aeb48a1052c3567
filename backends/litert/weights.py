"""Integers and scales written into the constants of a ``.tflite``, through the flatbuffer's own object API.

    constant float32 [N, K], all of the value that stands for a rounded matrix
    ==>
    INT8, INT4 or INT2 [N, K], the first value in the low bits of a byte, zero points 0, and
    scale float32 [N] along dimension 0, or a block size g and FLOAT16 scales [N, K / g]

Signatures share buffers, and each has a tensor of its own for every constant: all that point to a buffer are changed.
LiteRT's kernels round the scales of blocks to bfloat16, as which edgec's schemes of 16 bits hold them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from edgec.backends.litert.operators import IntegerArray, Integers
from edgec.errors import BudgetError

_SMALLEST: Final = 4
"""Bytes of the smallest constant that can be a matrix."""
_VERSIONS: Final = {"FULLY_CONNECTED": 14, "EMBEDDING_LOOKUP": 4}
"""The versions of operators from which on they read all of these forms."""


def packed(values: IntegerArray, bits: int) -> IntegerArray:
    """Integers as bytes, the first value in the low bits."""
    codes: IntegerArray = np.ascontiguousarray(values, np.int8).reshape(-1).view(np.uint8)
    if bits == 8:
        return codes
    per = 8 // bits
    codes = np.concatenate([codes, np.zeros(-len(codes) % per, np.uint8)]).reshape(-1, per) & ((1 << bits) - 1)
    result: IntegerArray = np.bitwise_or.reduce(codes << (np.arange(per, dtype=np.uint8) * bits), axis=1).astype(
        np.uint8
    )
    return result


def write_integers(content: bytes, matrices: Mapping[float, Integers]) -> bytes:
    """The model with integers in the place of their stand-ins.

    Args:
        content: a ``.tflite`` with stand-ins.
        matrices: by the values of their stand-ins.

    Raises:
        BudgetError: E902, the converter changed the values of one, so that it was not found.
    """
    schema, model = read_model(content)
    found = dict(_Found(model, matrices).buffers())
    _require(matrices, found)
    _refuse_copies(schema, model, {each.values.size for each in matrices.values()}, found)
    for graph in model.subgraphs:
        held = {place: found[each.buffer] for place, each in enumerate(graph.tensors) if each.buffer in found}
        for place, integers in held.items():
            _give(schema, model, graph, place, integers)
        _round_inputs(schema, model, graph, held)
    return written_model(model, sum(len(each.data) for each in model.buffers if each.data is not None))


def read_model(content: bytes) -> tuple[Any, Any]:
    """The flatbuffer's schema, a module, and a ``.tflite`` as its objects, which may be changed."""
    from ai_edge_litert import schema_py_generated as schema

    return schema, schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))


def written_model(model: Any, likely_bytes: int) -> bytes:
    """The ``.tflite`` of such objects."""
    import flatbuffers

    builder = flatbuffers.Builder(likely_bytes)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def operator_count(content: bytes) -> int:
    """The operators of all signatures of a ``.tflite``."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.Model.GetRootAs(content, 0)
    return sum(model.Subgraphs(place).OperatorsLength() for place in range(model.SubgraphsLength()))


@dataclass
class _Found:
    """Looks for matrices among a model's buffers."""

    model: Any
    matrices: Mapping[float, Integers]

    def buffers(self) -> Iterator[tuple[int, Integers]]:
        """The buffers that hold one."""
        sizes = {each.values.size * 4 for each in self.matrices.values()}
        for place, buffer in enumerate(self.model.buffers):
            data = buffer.data
            if data is not None and len(data) >= _SMALLEST and len(data) in sizes:
                values = np.asarray(data, np.uint8).view(np.float32)
                known = self.matrices.get(float(values[0]))
                if known is not None and known.values.size == values.size and (values == values[0]).all():
                    yield place, known


def _require(matrices: Mapping[float, Integers], found: Mapping[int, Integers]) -> None:
    lost = {each.name for each in matrices.values()} - {each.name for each in found.values()}
    if lost:
        changed = f"{len(lost)} of {len(matrices)} were changed on the way, so that their integers have no place"
        raise _changed(changed, sorted(lost)[0])


def _changed(why: str, where: str = "litert-torch") -> BudgetError:
    return BudgetError(
        "A rounded matrix is not in the converted model.",
        where=where,
        why=why,
        fix="report it with the model's architecture and the recipe",
        code="E902",
    )


def _refuse_copies(schema: Any, model: Any, sizes: Collection[int], found: Mapping[int, Integers]) -> None:
    """Refuse a layer over a stand-in that was multiplied by something, which is a second copy in float."""
    kind = schema.BuiltinOperator.FULLY_CONNECTED
    for graph in model.subgraphs:
        for operator in graph.operators:
            place = graph.tensors[operator.inputs[1]].buffer if len(operator.inputs) > 1 else 0
            if model.operatorCodes[operator.opcodeIndex].builtinCode != kind or place in found:
                continue
            data = model.buffers[place].data
            values = np.zeros(0, np.float32) if data is None else np.asarray(data, np.uint8).view(np.float32)
            if values.size in sizes and (values == values[0]).all():
                raise _changed(f"a layer's matrix is {values[0]:g} throughout: a factor was multiplied into it")


def _give(schema: Any, model: Any, graph: Any, place: int, integers: Integers) -> None:
    """Let a tensor hold integers."""
    tensor, kinds = graph.tensors[place], schema.TensorType
    tensor.type = {2: kinds.INT2, 4: kinds.INT4, 8: kinds.INT8}[integers.bits]
    model.buffers[tensor.buffer].data = packed(integers.values, integers.bits)
    rows = integers.scales.reshape(len(integers.values), -1)
    form = tensor.quantization = schema.QuantizationParametersT()
    form.quantizedDimension = 0
    if rows.shape[1] == 1:
        form.scale, form.zeroPoint = rows.reshape(-1).astype(np.float32), np.zeros(len(rows), np.int64)
        return
    blocks = schema.BlockwiseQuantizationT()
    blocks.scales = _constant(schema, model, graph, tensor.name + b"_scales", rows.astype(np.float16))
    blocks.zeroPoints, blocks.blockSize = -1, integers.values.shape[1] // rows.shape[1]
    form.detailsType, form.details = schema.QuantizationDetails.BlockwiseQuantization, blocks


def _constant(schema: Any, model: Any, graph: Any, name: bytes, values: IntegerArray) -> int:
    """A float16 constant of a graph; buffers of one content are shared."""
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    alike = (place for place, each in enumerate(model.buffers) if each.data is not None and len(each.data) == len(data))
    buffer = next((place for place in alike if np.array_equal(model.buffers[place].data, data)), None)
    if buffer is None:
        made = schema.BufferT()
        made.data = data
        model.buffers.append(made)
        buffer = len(model.buffers) - 1
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.type, tensor.buffer = name, list(values.shape), schema.TensorType.FLOAT16, buffer
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1


def _round_inputs(schema: Any, model: Any, graph: Any, held: Mapping[int, Integers]) -> None:
    """Let layers over integers round each token's inputs around their own middle, as the graph does."""
    for operator in graph.operators:
        code = model.operatorCodes[operator.opcodeIndex]
        name = next((each for each in _VERSIONS if getattr(schema.BuiltinOperator, each) == code.builtinCode), None)
        if name is None or not any(place in held for place in operator.inputs):
            continue
        code.version = max(code.version, _VERSIONS[name])
        if name == "FULLY_CONNECTED":
            operator.builtinOptions.asymmetricQuantizeInputs = True
