"""Operators on one or two tensors, element by element."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from edgec.backends.coreml.interpreter.element_types import BY_NAME
from edgec.backends.coreml.interpreter.operators.arguments import BinaryFunction, OperatorTable, of_x, of_x_and_y


def _divided(x: Tensor, y: Tensor) -> Tensor:
    """Integers are divided towards zero, as the result's type demands."""
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


def _floor_divided(x: Tensor, y: Tensor) -> Tensor:
    return torch.div(x, y, rounding_mode="floor")


def _cast(x: Tensor, dtype: str) -> Tensor:
    """To float16 the result is rounded by the interpreter, where values are rounded at all."""
    wanted = BY_NAME[dtype].held
    return x.float() if wanted.is_floating_point else x.to(wanted)


def _inverse(x: Tensor, epsilon: Tensor | float = 1e-4) -> Tensor:
    return 1.0 / (x + epsilon)


def _log(x: Tensor, epsilon: Tensor | float = 1e-45) -> Tensor:
    return torch.log(x + epsilon)


def _rsqrt(x: Tensor, epsilon: Tensor | float = 1e-12) -> Tensor:
    return torch.rsqrt(x + epsilon)


def _clip(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(x, alpha), beta)


def _threshold(x: Tensor, alpha: Tensor) -> Tensor:
    return torch.maximum(x, alpha)


def _quantize(
    input: Tensor, scale: Tensor, output_dtype: str, zero_point: Tensor | None = None, axis: Tensor | None = None
) -> Tensor:
    """Nearest integer of input / scale + zero_point, clamped to the type."""
    kind = BY_NAME[output_dtype]
    low, high = (-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1) if kind.signed else (0, (1 << kind.bits) - 1)
    offset = 0 if zero_point is None else _on_axis(zero_point, input, axis).float()
    return torch.clamp(torch.round(input / _on_axis(scale, input, axis)) + offset, low, high).to(kind.held)


def _dequantize(input: Tensor, scale: Tensor, zero_point: Tensor | None = None, axis: Tensor | None = None) -> Tensor:
    offset = 0 if zero_point is None else _on_axis(zero_point, input, axis).float()
    return (input.float() - offset) * _on_axis(scale, input, axis)


def _on_axis(values: Tensor, x: Tensor, axis: Tensor | None) -> Tensor:
    if not values.dim() or axis is None:
        return values
    shape = [1] * x.dim()
    shape[int(axis)] = -1
    return values.reshape(shape)


_BINARY: Mapping[str, BinaryFunction] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "real_div": _divided,
    "floor_div": _floor_divided,
    "mod": torch.remainder,
    "pow": torch.pow,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "equal": torch.eq,
    "not_equal": torch.ne,
    "greater": torch.gt,
    "greater_equal": torch.ge,
    "less": torch.lt,
    "less_equal": torch.le,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
}
_UNARY = (
    *("abs", "acos", "asin", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2", "floor", "logical_not"),
    *("round", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh"),
)
TABLE: OperatorTable = {
    **{name: of_x_and_y(function) for name, function in _BINARY.items()},
    **{name: of_x(getattr(torch, name)) for name in _UNARY},
    "inverse": _inverse,
    "log": _log,
    "rsqrt": _rsqrt,
    "clip": _clip,
    "threshold": _threshold,
    "cast": _cast,
    "quantize": _quantize,
    "dequantize": _dequantize,
}
