"""ONNX Runtime's operators beyond ONNX's own, as torch's exporter writes them in the place of edgec's.

Their schemas are ONNX Runtime's, as far as they are used here (docs/ContribOperators.md of its repository).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from edgec.backends.genai.blocks import BLOCK_MATMUL, BLOCK_ROWS
from edgec.backends.onnx.translate import Translations
from edgec.ir.growing_cache import GROUPED_ATTENTION

DOMAIN: Final = "com.microsoft"
_BYTE = 8
_FLOAT_INPUTS, _ROUNDED_INPUTS = 1, 4
"""MatMulNBits' ``accuracy_level``: inputs in float32, or rounded to 8 bits in blocks."""
_SINKS_AT = 11
"""The place of learned sinks among GroupQueryAttention's inputs; those between are rotations and a bias."""


def translations() -> Translations:
    """The translations of the operators that the genai layout has beyond those of ONNX."""
    import onnxscript

    opset21: Any = onnxscript.opset21
    multiply = _operator(
        "MatMulNBits", 3, 3, 1, {"K": "i", "N": "i", "bits": "i", "block_size": "i", "accuracy_level": "i"}
    )
    gather = _operator(
        "GatherBlockQuantized", 3, 3, 1, {"bits": "i", "block_size": "i", "gather_axis": "i", "quantize_axis": "i"}
    )
    attend = _operator(
        *("GroupQueryAttention", 7, 12, 3),
        {"num_heads": "i", "kv_num_heads": "i", "scale": "f", "softcap": "f", "local_window_size": "i"},
    )

    def matmul(x: Any, packed: Any, scales: Any, bits: int, rounded: bool) -> Any:
        count, blocks, width = packed.shape
        block = width * _BYTE // bits
        level = _ROUNDED_INPUTS if rounded else _FLOAT_INPUTS
        return multiply(x, packed, scales, K=blocks * block, N=count, bits=bits, block_size=block, accuracy_level=level)

    def rows(packed: Any, scales: Any, ids: Any, bits: int) -> Any:
        count, blocks, width = packed.shape
        table = opset21.Reshape(packed, opset21.Constant(value_ints=[count, blocks * width]))
        return gather(table, ids, scales, bits=bits, block_size=width * _BYTE // bits, gather_axis=0, quantize_axis=1)

    def attention(*given: Any) -> Any:
        *tensors, sinks, heads, groups, scale, window, softcap = given
        skipped = [None] * (_SINKS_AT - len(tensors))
        beside = [] if sinks is None else [*skipped, sinks]
        options = {"num_heads": heads, "kv_num_heads": groups, "scale": scale, "softcap": softcap}
        return attend(*tensors, *beside, **options, local_window_size=window or -1)

    return {BLOCK_MATMUL: matmul, BLOCK_ROWS: rows, GROUPED_ATTENTION: attention}


def _operator(name: str, needed: int, inputs: int, outputs: int, attributes: Mapping[str, str]) -> Any:
    """An operator of ONNX Runtime's: of its inputs so many are needed; attributes are integers or floats."""
    import onnxscript
    from onnx.defs import OpSchema

    kinds = {"i": OpSchema.AttrType.INT, "f": OpSchema.AttrType.FLOAT}
    option = OpSchema.FormalParameterOption
    types = ["tensor(float)", "tensor(uint8)", "tensor(int32)", "tensor(int64)"]
    read = [
        OpSchema.FormalParameter(
            f"in{place}", f"I{place}", param_option=option.Single if place < needed else option.Optional
        )
        for place in range(inputs)
    ]
    made = [OpSchema.FormalParameter(f"out{place}", f"O{place}") for place in range(outputs)]
    schema = OpSchema(
        name,
        DOMAIN,
        1,
        inputs=read,
        outputs=made,
        type_constraints=[(each.type_str, types, "") for each in (*read, *made)],
        attributes=[OpSchema.Attribute(key, kinds[kind], required=False) for key, kind in attributes.items()],
    )
    return onnxscript.values.Op(onnxscript.values.Opset(DOMAIN, 1), name, schema)
