"""Converters for edgec's operators that are not weights, and for those of torch's that coremltools misreads.

edgec::update_slots(cache, value, start)          ->          slice_update(cache, value, begin = [0, 0, start, 0])
gelu(x, approximate = "tanh")                         ->          gelu(x, mode = "TANH_APPROXIMATION")
einsum("bhwc,hkc->bhwk", [x float32, y float16])      ->          einsum of both in float32
clamp_min(x float16, 1e-12)                           ->          maximum(x, 2^-14)

coremltools 9.0 ignores the keyword of an exported GELU and computes the exact one: up to 5e-4 off, without a warning.
It widens a float16 value that meets a Python number, and refuses an einsum of it with one that met none (SAM). It
refuses to bound a float16 value by a number, which it takes as float32 (``F.normalize``); a bound that float16 has no
number for is float16's smallest, since a division by 0 would follow. And of a product and a sum for each channel it
makes a batch norm whose mean is float32, which it refuses beside float16 (MiniLM's scores and mask).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

from edgec.backends.coreml import compressed_ops
from edgec.backends.coreml.stateful_ops import call_positions, stacked_rows

_SMALLEST: Final = 2.0**-14


def register() -> None:
    """Register edgec's operators with coremltools; calling it again changes nothing."""
    from coremltools.converters.mil.frontend.torch.torch_op_registry import _TORCH_OPS_REGISTRY

    compressed_ops.register()
    own = {"update_slots": _update_slots, "call_positions": call_positions, "stacked_rows": stacked_rows}
    for name, converter in own.items():
        for alias in (name, f"edgec::{name}", f"edgec.{name}"):
            _TORCH_OPS_REGISTRY.set_func_by_name(converter, alias)
    _TORCH_OPS_REGISTRY.set_func_by_name(_gelu, "gelu")
    _TORCH_OPS_REGISTRY.set_func_by_name(_einsum, "einsum")
    _keep_half_sums()
    for name, bound in (("clamp_min", "maximum"), ("clamp_max", "minimum")):
        _TORCH_OPS_REGISTRY.set_func_by_name(partial(_bounded, bound), name)


def _keep_half_sums() -> None:
    """Leave ``x * gamma + beta`` in float16 as it is: coremltools makes a batch norm of it whose mean is float32."""
    from coremltools.converters.mil.mil import types
    from coremltools.converters.mil.mil.passes.defs.optimize_elementwise_binary import fuse_elementwise_to_batchnorm

    made = fuse_elementwise_to_batchnorm._try_to_transform
    if getattr(made, "keeps_half", False):
        return

    def transform(product: Any, total: Any, block: Any) -> bool:
        half = types.fp16 in (product.x.dtype, product.y.dtype)
        return False if half else bool(made(product, total, block))

    transform.keeps_half = True  # type: ignore[attr-defined]
    fuse_elementwise_to_batchnorm._try_to_transform = staticmethod(transform)


def _update_slots(context: Any, node: Any) -> None:
    import numpy as np
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.frontend.torch.ops import _get_inputs

    cache, value, start = _get_inputs(context, node, expected=3)
    begin = mb.concat(values=[np.zeros(2, np.int32), start, np.zeros(1, np.int32)], axis=0)
    end = mb.add(x=begin, y=np.array([0, 0, value.shape[2], 0], np.int32))
    whole = [True, True, False, True]
    updated = mb.slice_update(
        x=cache, update=value, begin=begin, end=end, begin_mask=whole, end_mask=whole, name=node.name
    )
    context.add(updated, torch_name=node.name)


def _gelu(context: Any, node: Any) -> None:
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.frontend.torch.ops import _get_inputs, _get_kwinputs

    x, *given = _get_inputs(context, node)
    (approximate,) = given or _get_kwinputs(context, node, "approximate") or ("none",)
    said = getattr(approximate, "val", approximate)
    mode = "TANH_APPROXIMATION" if said == "tanh" else "EXACT"
    context.add(mb.gelu(x=x, mode=mode, name=node.name))


def _einsum(context: Any, node: Any) -> None:
    from coremltools.converters.mil.frontend._utils import build_einsum_mil
    from coremltools.converters.mil.mil.ops.defs._utils import promote_input_dtypes

    equation, operands = node.inputs
    said = context[equation].val if equation in context else equation
    values = context[operands] if isinstance(operands, str) else [context[operand] for operand in operands]
    context.add(build_einsum_mil(promote_input_dtypes(values), said, node.name))


def _bounded(operator: str, context: Any, node: Any) -> None:
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.frontend.torch.ops import _get_inputs
    from coremltools.converters.mil.mil import types

    x, bound = _get_inputs(context, node, expected=2)
    if bound.val is not None and x.dtype != bound.dtype:
        bound = types.nptype_from_builtin(x.dtype)(_held(float(bound.val), x.dtype is types.fp16))
    context.add(getattr(mb, operator)(x=x, y=bound, name=node.name))


def _held(bound: float, half: bool) -> float:
    """A bound whose sign float16 keeps."""
    return math.copysign(_SMALLEST, bound) if half and 0 < abs(bound) < _SMALLEST else bound
