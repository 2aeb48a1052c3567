"""edgec's compressed weights for coremltools: converters from the graph's forms to constexpr operators.

    edgec::dequantize_lut(index, table)          ->  constexpr_lut_to_dense
      with a share of exact zeros that pays      ->  constexpr_lut_to_sparse, constexpr_sparse_to_dense
    torchao::dequantize_affine(integers, scale)  ->  constexpr_blockwise_shift_scale, int4 or int8 per channel or block
      with zero points, integers from 0 on       ->  the same, uint4 or uint8 with offsets

The values are the graph's own, rounded to float16 where the package computes in float16. ExecuTorch's Core ML delegate
calls the same converters. Core ML decompresses when it loads or as it computes; the file holds packed indices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from edgec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

LUT_BITS = (1, 2, 3, 4, 6, 8)
INTEGER_BOUNDS = {(-8, 7): "int4", (-128, 127): "int8"}
_FROM_ZERO = ((4, "uint4"), (8, "uint8"))
_MASK_BITS = 1


def register() -> None:
    """Make coremltools read the compressed forms; calling it again changes nothing.

    ExecuTorch overrides coremltools' converter of ``dequantize_affine`` when its delegate is imported; it is
    imported first here, so that later imports change nothing.
    """
    import executorch.backends.apple.coreml.compiler  # noqa: F401
    from coremltools.converters.mil.frontend.torch.torch_op_registry import _TORCH_OPS_REGISTRY

    for namespace, name, converter in (
        ("edgec", "dequantize_lut", _dequantize_lut),
        ("torchao", "dequantize_affine", _dequantize_affine),
    ):
        for alias in (name, f"{namespace}::{name}", f"{namespace}.{name}"):
            _TORCH_OPS_REGISTRY.set_func_by_name(converter, alias)


def _dequantize_lut(context: Any, node: Any) -> None:
    indices, table, scale, group_rows = _values(context, node, 4, "a look-up table")
    dense = np.asarray(indices, dtype=np.uint8)
    factors = None if scale is None else np.asarray(scale)
    tables = expand_tables(np.asarray(table), factors, int(group_rows), dense.shape)
    sparse = sparse_parts(dense, tables)
    made = _sparse(sparse, tables, node.name) if sparse else _dense(dense, tables, node.name)
    context.add(made, torch_name=node.name)


def expand_tables(
    table: NDArray[Any], scale: NDArray[Any] | None, group_rows: int, shape: tuple[int, ...]
) -> NDArray[Any]:
    """Tables as Core ML wants them, [G, 1, ..., 2^bits, 1]; a scale per row makes a table per row.

    Raises:
        InputError: E440, a number of entries that no index width of Core ML has.
    """
    entries = table.shape[1]
    if entries not in [1 << bits for bits in LUT_BITS]:
        raise InputError(
            what=f"a look-up table of {entries} entries cannot be expressed in Core ML",
            why=f"its indices have {', '.join(map(str, LUT_BITS))} bits",
            fix="choose one of these widths in the recipe",
            code="E440",
        )
    if scale is not None:
        table = np.repeat(table, group_rows, 0) * scale.reshape(-1, 1).astype(table.dtype)
    return table.reshape(table.shape[0], *[1] * (len(shape) - 1), entries, 1)


@dataclass(frozen=True)
class SparseParts:
    """A matrix of indices without its zeros: ``mask`` uint8 [N, ...] of 0 and 1, ``nonzero`` uint8 [D] in row order."""

    mask: NDArray[Any]
    nonzero: NDArray[Any]


def sparse_parts(indices: NDArray[Any], tables: NDArray[Any]) -> SparseParts | None:
    """Mask and remaining indices where index 0 stands for an exact zero and leaving it out makes the file smaller."""
    entries = tables.shape[-2]
    bits = entries.bit_length() - 1
    if np.any(tables.reshape(-1, entries)[:, 0] != 0.0):
        return None
    mask = indices != 0
    kept = int(mask.sum())
    if indices.size * _MASK_BITS + kept * bits >= indices.size * bits:
        return None
    return SparseParts(mask.astype(np.uint8), indices[mask])


def _dense(indices: NDArray[Any], tables: NDArray[Any], name: str) -> Any:
    from coremltools.converters.mil import Builder as mb

    return mb.constexpr_lut_to_dense(indices=_packed(indices, tables), lut=tables, name=name)


def _sparse(parts: SparseParts, tables: NDArray[Any], name: str) -> Any:
    from coremltools.converters.mil import Builder as mb

    mask, values = mb.constexpr_lut_to_sparse(
        indices_mask=parts.mask.astype(_numpy_type("uint1")),
        indices_nonzero_data=_packed(parts.nonzero, tables),
        lut=tables,
        name=f"{name}_nonzero",
    )
    return mb.constexpr_sparse_to_dense(nonzero_data=values, mask=mask, name=name)


def _packed(indices: NDArray[Any], tables: NDArray[Any]) -> NDArray[Any]:
    """Indices in the integer type of their table's width, which coremltools writes packed."""
    return indices.astype(_numpy_type(f"uint{tables.shape[-2].bit_length() - 1}"))


def _numpy_type(name: str) -> Any:
    from coremltools.converters.mil.mil import types

    return types.nptype_from_builtin(types.string_to_builtin(name))


def _dequantize_affine(context: Any, node: Any) -> None:
    integers, block, scale, zero_point, _, low, high, *_ = _values(context, node, (7, 8), "an integer grid")
    bounds, shape = (int(low), int(high)), [size // per for size, per in zip(integers.shape, block, strict=True)]
    scales = np.asarray(scale, np.float32).reshape(shape)
    dtype = _integer_type(bounds, node.name)
    offset = None if zero_point is None else np.asarray(zero_point).reshape(shape)
    context.add(_affine(integers, scales, offset, dtype, node.name), torch_name=node.name)


def _integer_type(bounds: tuple[int, int], name: str) -> str:
    """The narrowest type that holds integers of a form.

    Raises:
        InputError: E440, they have neither 4 nor 8 bits.
    """
    fitting = [dtype for bits, dtype in _FROM_ZERO if bounds[0] == 0 and bounds[1] < 1 << bits]
    dtype = INTEGER_BOUNDS.get(bounds) or next(iter(fitting), "")
    if not dtype:
        raise InputError(
            what=f"integers from {bounds[0]} to {bounds[1]} cannot be expressed in Core ML",
            where=name,
            why="constexpr_blockwise_shift_scale reads integers of 4 and 8 bits",
            fix='use 4 or 8 bits, or a look-up table (kind = "lut" or "balanced")',
            code="E440",
        )
    return dtype


def _affine(integers: Any, scale: Any, zero_point: Any, dtype: str, name: str) -> Any:
    from coremltools.converters.mil import Builder as mb

    narrow = _numpy_type(dtype)
    offset = {"offset": zero_point.astype(narrow)} if zero_point is not None and np.any(zero_point) else {}
    return mb.constexpr_blockwise_shift_scale(data=integers.astype(narrow), scale=scale, name=name, **offset)


def _values(context: Any, node: Any, expected: int | tuple[int, int], form: str) -> list[Any]:
    """The constant arguments of a node; None for absent ones.

    Raises:
        InputError: E440, the node reads something that is computed.
    """
    from coremltools.converters.mil.frontend.torch.ops import _get_inputs

    inputs = _get_inputs(context, node, expected=list(expected) if isinstance(expected, tuple) else expected)
    if any(source is not None and source.val is None for source in inputs[:3]):
        raise InputError(
            what=f"{form} is computed while the model runs",
            where=node.name,
            why="Core ML reads compressed weights from constants alone; activations stay in float16",
            fix="set activation_bits = 0 in the recipe, or use one of edgec's recipes for this target",
            code="E440",
        )
    return [None if source is None else source.val for source in inputs]
