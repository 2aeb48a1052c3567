"""What each instruction of an MLX program computes, in ``mlx`` itself: the same library as on the phone, for its CPU.

Every operator takes an instruction's fields by name, without those of its results, and gives the value of ``out``. They
follow ExecuTorch's own interpreter (backends/mlx/runtime/MLXInterpreter.h), field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from edgec.backends.mlx.tools import mlx_core

MlxFunction = Callable[..., Any]
_LARGEST = (1 << 31) - 1
# ExecuTorch's numbers of dtypes.
DTYPES: Mapping[int, str] = {
    **{0: "uint8", 1: "int8", 3: "int32", 4: "int64", 28: "uint32"},
    **{5: "float16", 6: "float32", 11: "bool_", 15: "bfloat16"},
}
# The schema's operators that are one function of MLX: its name, and the fields that are its arguments in order.
_ONE = ("sigmoid", "tanh", "rsqrt", "exp", "log", "sqrt", "square", "erf", "floor", "ceil", "sin", "cos", "abs")
_TWO = ("add", "multiply", "divide", "subtract", "maximum", "minimum", "power", "less", "greater", "equal")
_DIRECT: Mapping[str, tuple[str, str]] = {
    **{name.capitalize(): (name, "x") for name in _ONE},
    **{name.capitalize(): (name, "a b") for name in _TWO},
    "Neg": ("negative", "x"),
    "Reciprocal": ("reciprocal", "x"),
    "LogicalNot": ("logical_not", "x"),
    "Contiguous": ("contiguous", "x"),
    "LessEqual": ("less_equal", "a b"),
    "GreaterEqual": ("greater_equal", "a b"),
    "NotEqual": ("not_equal", "a b"),
    "LogicalAnd": ("logical_and", "a b"),
    "LogicalOr": ("logical_or", "a b"),
    "FloorDivide": ("floor_divide", "a b"),
    "ExpandDims": ("expand_dims", "x axis"),
    "Reshape": ("reshape", "x shape"),
    "Transpose": ("transpose", "x perm"),
    "Tile": ("tile", "x reps"),
    "Concatenate": ("concatenate", "tensors axis"),
    "Take": ("take", "x index axis"),
    "Where": ("where", "condition x y"),
}
_FAST: Mapping[str, tuple[str, str]] = {
    "RMSNorm": ("rms_norm", "x weight eps"),
    "LayerNorm": ("layer_norm", "x weight bias eps"),
}
_INTEGERS: Mapping[str, Callable[[int, int], int]] = {
    "AddIntNode": lambda a, b: a + b,
    "SubtractIntNode": lambda a, b: a - b,
    "MultiplyIntNode": lambda a, b: a * b,
    "FloorDivideIntNode": lambda a, b: a // b,
    "ModIntNode": lambda a, b: a % b,
}


@cache
def functions() -> Mapping[str, MlxFunction]:
    """The operators by the schema's names.

    Raises:
        ToolError: E871, ``mlx`` is not installed.
    """
    mx = mlx_core()
    direct = {f"{node}Node": _positional(getattr(mx, name), given) for node, (name, given) in _DIRECT.items()}
    fast = {f"{node}Node": _positional(getattr(mx.fast, name), given) for node, (name, given) in _FAST.items()}
    return {**direct, **fast, **_INTEGERS, **_shapes(mx), **_layers(mx)}


def _positional(function: MlxFunction, names: str) -> MlxFunction:
    """A function of MLX by the fields of an instruction."""
    order = names.split()
    return lambda **given: function(*(given[name] for name in order))


def _shapes(mx: Any) -> Mapping[str, MlxFunction]:
    return {
        "IdCopyNode": lambda x: x,
        "ItemIntNode": lambda x: int(x.item()),
        "SymSizeNode": lambda a, dim: a.shape[dim],
        "SqueezeNode": lambda x, dims: mx.squeeze(x, [d for d in dims if x.shape[d] == 1] if dims else None),
        "BroadcastToNode": _broadcast,
        "SliceNode": lambda x, axis, start, stop, step: x[_along(x, axis, start, stop, step)],
        "SliceUpdateNode": _slice_update,
        "AsTypeNode": lambda x, scalar_type: x.astype(dtype(scalar_type)),
        "FullNode": lambda shape, v, scalar_type: mx.full(shape, v, dtype(scalar_type)),
        "ARangeNode": lambda start, stop, step, scalar_type: mx.arange(
            start, stop, step, None if scalar_type is None else dtype(scalar_type)
        ),
    }


def _layers(mx: Any) -> Mapping[str, MlxFunction]:
    return {
        "RopeNode": _rope,
        "SdpaNode": _attention,
        "AddmmNode": _addmm,
        "QuantizedMatmulNode": _quantized_matmul,
        "DequantizeNode": _dequantize,
        "SiluNode": lambda x: x * mx.sigmoid(x),
        "GeluNode": _gelu,
        "SoftmaxNode": lambda x, axis, precise: mx.softmax(x, axis, precise=precise),
        "MeanNode": lambda x, axes, keepdims: mx.mean(x, axes or None, keepdims),
        "SumNode": lambda x, axes, keepdims: mx.sum(x, axes or None, keepdims),
    }


def dtype(scalar_type: int) -> Any:
    """MLX's dtype of an ExecuTorch number."""
    return getattr(mlx_core(), DTYPES[scalar_type])


def _broadcast(x: Any, shape: Sequence[int]) -> Any:
    """As ``expand`` of torch: -1 keeps a size; sizes are counted from the right."""
    own = [1] * (len(shape) - x.ndim) + list(x.shape)
    return mlx_core().broadcast_to(x, [have if size == -1 else size for size, have in zip(shape, own, strict=True)])


def _along(x: Any, axis: int, start: int, stop: int, step: int) -> tuple[slice, ...]:
    whole = [slice(None)] * x.ndim
    # The delegate's own interpreter narrows them, too: an end that is left out is 2^63 - 1.
    begin, end = (max(-_LARGEST - 1, min(each, _LARGEST)) for each in (start, stop))
    whole[axis] = slice(begin, end, step)
    return tuple(whole)


def _slice_update(dst: Any, update: Any, axis: int, start: int, stop: int, step: int) -> Any:
    if stop > dst.shape[axis]:
        raise ValueError(f"{update.shape[axis]} rows from {start} on do not fit into {dst.shape[axis]}")
    changed = mlx_core().array(dst)
    changed[_along(dst, axis, start, stop, step)] = update
    return changed


def _rope(x: Any, offset: Any, dims: int, traditional: bool, base: float, scale: float, freqs: Any) -> Any:
    own = None if freqs is not None else base
    return mlx_core().fast.rope(x, dims, traditional=traditional, base=own, scale=scale, offset=offset, freqs=freqs)


def _attention(q: Any, k: Any, v: Any, scale: float, mask: Any, causal: bool) -> Any:
    mx = mlx_core()
    if mask is not None and mask.dtype not in (mx.bool_, q.dtype):
        mask = mask.astype(q.dtype)
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask="causal" if causal else mask)


def _addmm(mat1: Any, mat2: Any, bias: Any, alpha: float, beta: float) -> Any:
    mx = mlx_core()
    return mx.matmul(mat1, mat2) if bias is None else mx.addmm(bias, mat1, mat2, alpha=alpha, beta=beta)


def _quantized_matmul(
    x: Any, w: Any, scales: Any, biases: Any, transpose: bool, group_size: int, bits: int, mode: str
) -> Any:
    """Products with sums in float32, as MLX's kernels for GPUs have them; its kernel for CPUs sums in x's own type.

    In float16 that one is 0.34 % off for 576 products a sum, and rounding the result once 0.02 % (mlx 0.32.4). A row by
    it in float32; many by the dequantised matrix, since for those it takes minutes.
    """
    mx, grid = mlx_core(), (group_size, bits, mode)
    wide, rows = [None if each is None else each.astype(mx.float32) for each in (scales, biases)], x.astype(mx.float32)
    if x.size == x.shape[-1]:
        return mx.quantized_matmul(rows, w, *wide, transpose, *grid).astype(x.dtype)
    matrix = mx.dequantize(w, *wide, *grid)
    return (rows @ (matrix.T if transpose else matrix)).astype(x.dtype)


def _dequantize(
    w: Any, scales: Any, biases: Any, group_size: int, bits: int, mode: str, global_scale: Any, dtype: int | None
) -> Any:
    if global_scale is not None:
        raise ValueError("a global scale")
    made = mlx_core().dequantize(w, scales, biases, group_size, bits, mode)
    return made if dtype is None else made.astype(getattr(mlx_core(), DTYPES[dtype]))


def _gelu(x: Any, approximate: str) -> Any:
    mx = mlx_core()
    if approximate == "tanh":
        return 0.5 * x * (1.0 + mx.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1.0 + mx.erf(x * 0.7071067812))
