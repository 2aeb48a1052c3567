"""Typed Swift functions for the methods of non-decoder models."""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgec.apps.embed.swift_text import identifier, string, type_name, unique
from edgec.bundle.entry_points import MethodInfo, TensorInfo
from edgec.errors import InputError

_KINDS = {
    "float32": ("Float", "floats"),
    "float16": ("Float", "floats"),
    "int64": ("Int", "integers"),
    "int32": ("Int", "integers"),
    "bool": ("Int", "integers"),
}


def predictions(methods: Sequence[MethodInfo]) -> str:
    """The source code of one function and one result type per method; arrays are flat, in row order.

    Raises:
        InputError: E465, an input's dtype or shape has no Swift type.
    """
    types = unique([type_name(method.name, "Method") for method in methods])
    functions = "\n".join(_prediction(index, method, types[index]) for index, method in enumerate(methods))
    return f"extension EdgecModel {{{functions}\n}}\n"


def _prediction(index: int, method: MethodInfo, type_: str) -> str:
    taken = ("method", "outputs", "runtime", "gate", "exclusively")
    inputs = unique([*taken, *(identifier(tensor.name, "input") for tensor in method.inputs)])[len(taken) :]
    outputs = unique([identifier(tensor.name, "output") for tensor in method.outputs])
    function = "predict" if type_ in ("Forward", "Main") else f"predict{type_}"
    parameters = ", ".join(f"{name}: [{_kind(t)[0]}]" for name, t in zip(inputs, method.inputs, strict=True))
    lines = [
        f"    /// What `{function}` returns; flat arrays in row order.",
        f"    public struct {type_}Result: Sendable {{",
        *(
            f"        /// Shape {_shape(t)}.\n        public let {name}: [Float]"
            for name, t in _named(outputs, method.outputs)
        ),
        "    }",
        "",
        *(
            f"    /// - Parameter {name}: shape {_shape(t)}, {_count(t)} values."
            for name, t in _named(inputs, method.inputs)
        ),
        f"    public func {function}({parameters}) async throws -> {type_}Result {{",
        f"        let method = ModelFacts.methods[{index}]",
        "        let outputs = try await exclusively {",
        "            try await runtime.run(method, [",
        *(
            f"                InputTensor(method.inputs[{i}], .{_kind(tensor)[1]}({name})),"
            for i, (name, tensor) in enumerate(_named(inputs, method.inputs))
        ),
        "            ], isolation: self)",
        "        }",
        f"        return {type_}Result({', '.join(f'{name}: outputs[{i}]' for i, name in enumerate(outputs))})",
        "    }",
    ]
    return "\n" + "\n".join(lines)


def _named(names: Sequence[str], tensors: Sequence[TensorInfo]) -> list[tuple[str, TensorInfo]]:
    return list(zip(names, tensors, strict=True))


def _shape(tensor: TensorInfo) -> str:
    return " x ".join(str(size) if isinstance(size, int) else "varying" for size in tensor.shape) or "scalar"


def _kind(tensor: TensorInfo) -> tuple[str, str]:
    if tensor.dtype not in _KINDS:
        raise _untyped(tensor, f"values of {tensor.dtype} have no Swift type here")
    return _KINDS[tensor.dtype]


def _count(tensor: TensorInfo) -> int:
    if not all(isinstance(size, int) for size in tensor.shape):
        raise _untyped(tensor, f"its shape {tensor.shape} varies")
    return math.prod(int(size) for size in tensor.shape)


def _untyped(tensor: TensorInfo, why: str) -> InputError:
    return InputError(
        "no typed Swift function can be made for this model",
        where=string(tensor.name),
        why=why,
        fix="export it with inputs of fixed shape and of float32, float16, int32, int64 or bool",
        code="E465",
    )
