"""Integers and scales written into the constants of a ``.tflite``, through the flatbuffer's own object API.

    input edgec_matrix_3 float32 [N, K] of a signature
    ==>
    constant INT8, INT4 or INT2 [N, K], the first value in the low bits of a byte, zero points 0, and
    scale float32 [N] along dimension 0, or a block size g and FLOAT16 scales [N, K / g]

Signatures share buffers, and each has a tensor of its own for every constant.
LiteRT's kernels round the scales of blocks to bfloat16, as which edgec's schemes of 16 bits hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from edgec.backends.litert.operators import IntegerArray, Integers
from edgec.errors import BudgetError

_VERSIONS: Final = {"FULLY_CONNECTED": 14, "EMBEDDING_LOOKUP": 4}
"""The operators that read a matrix, their second input, and the versions from which on they read all of these forms."""


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


def write_integers(content: bytes, matrices: Mapping[str, Integers]) -> bytes:
    """The model with integers in the place of its inputs for them.

    Args:
        content: a ``.tflite`` whose rounded matrices are inputs.
        matrices: by the names of these.

    Raises:
        BudgetError: E902, one was lost, or something else than a layer or a table reads it.
    """
    schema, model = read_model(content)
    writer = _Writer(schema, model)
    for signature in model.signatureDefs:
        graph = model.subgraphs[signature.subgraphIndex]
        held = _taken_out(signature, graph, matrices)
        writer.require_layers(graph, held)
        for place, integers in held.items():
            writer.give(graph, place, integers)
        writer.round_inputs(graph, held)
    lost = sorted({each.name for each in matrices.values()} - writer.buffers.keys())
    if lost:
        raise _changed(
            f"{len(lost)} of {len(matrices)} were lost on the way, so that their integers have no place", lost[0]
        )
    return written_model(model, sum(len(each.data) for each in model.buffers if each.data is not None))


def _taken_out(signature: Any, graph: Any, matrices: Mapping[str, Integers]) -> dict[int, Integers]:
    """Matrices by the places of their tensors, which are inputs no longer."""
    named = {each.tensorIndex: each.name.decode() for each in signature.inputs}
    held = {place: matrices[name] for place, name in named.items() if name in matrices}
    signature.inputs = [each for each in signature.inputs if each.tensorIndex not in held]
    graph.inputs = [place for place in graph.inputs if place not in held]
    return held


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


def _changed(why: str, where: str) -> BudgetError:
    return BudgetError(
        "A rounded matrix is not in the converted model.",
        where=where,
        why=why,
        fix="report it with the model's architecture and the recipe",
        code="E902",
    )


@dataclass
class _Writer:
    """Writes matrices into a model; ``buffers`` has those of integers and scales by the names of the matrices."""

    schema: Any
    model: Any
    buffers: dict[str, tuple[int, int]] = field(default_factory=dict)

    def require_layers(self, graph: Any, held: Mapping[int, Integers]) -> None:
        """Refuse a matrix that something reads which does not read integers.

        Raises:
            BudgetError: E902.
        """
        for operator in graph.operators:
            for position, place in enumerate(operator.inputs):
                if place in held and not (position == 1 and self._reader(operator)):
                    raise _changed(f"{self._name(operator)} reads it, which takes no integers", held[place].name)

    def give(self, graph: Any, place: int, integers: Integers) -> None:
        """Let a tensor hold integers."""
        tensor, kinds = graph.tensors[place], self.schema.TensorType
        rows = integers.scales.reshape(len(integers.values), -1)
        whole = rows.shape[1] == 1
        if integers.name not in self.buffers:
            codes = self._buffer(packed(integers.values, integers.bits))
            self.buffers[integers.name] = codes, 0 if whole else self._buffer(rows.astype(np.float16))
        tensor.buffer, scales = self.buffers[integers.name]
        tensor.type = {2: kinds.INT2, 4: kinds.INT4, 8: kinds.INT8}[integers.bits]
        form = tensor.quantization = self.schema.QuantizationParametersT()
        form.quantizedDimension = 0
        if whole:
            form.scale, form.zeroPoint = rows.reshape(-1).astype(np.float32), np.zeros(len(rows), np.int64)
            return
        blocks = self.schema.BlockwiseQuantizationT()
        blocks.scales = self._scales(graph, tensor.name + b"_scales", rows.shape, scales)
        blocks.zeroPoints, blocks.blockSize = -1, integers.values.shape[1] // rows.shape[1]
        form.detailsType, form.details = self.schema.QuantizationDetails.BlockwiseQuantization, blocks

    def round_inputs(self, graph: Any, held: Mapping[int, Integers]) -> None:
        """Let layers over integers round each token's inputs around their own middle, as the graph does."""
        for operator in graph.operators:
            if not any(place in held for place in operator.inputs):
                continue
            code, name = self.model.operatorCodes[operator.opcodeIndex], self._reader(operator)
            code.version = max(code.version, _VERSIONS[name])
            if name == "FULLY_CONNECTED":
                operator.builtinOptions.asymmetricQuantizeInputs = True

    def _buffer(self, values: IntegerArray) -> int:
        made = self.schema.BufferT()
        made.data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self.model.buffers.append(made)
        return len(self.model.buffers) - 1

    def _scales(self, graph: Any, name: bytes, shape: tuple[int, ...], buffer: int) -> int:
        """A float16 constant of a graph."""
        tensor = self.schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name, list(shape), buffer
        tensor.type = self.schema.TensorType.FLOAT16
        graph.tensors.append(tensor)
        return len(graph.tensors) - 1

    def _reader(self, operator: Any) -> str:
        """The name of an operator that reads matrices; empty for others."""
        name = self._name(operator)
        return name if name in _VERSIONS else ""

    def _name(self, operator: Any) -> str:
        code = self.model.operatorCodes[operator.opcodeIndex].builtinCode
        return next(str(name) for name, value in vars(self.schema.BuiltinOperator).items() if value == code)
