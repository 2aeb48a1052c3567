"""Lowerings to Core AI of the operators of a decoder that another runtime calls (``edgec.ir.stateful_call``).

edgec::call_positions(tokens, sized, beyond)     ->     range(shape(sized)[-1] - beyond - shape(tokens)[1], ...)
edgec::stacked_rows(cache, rows, start, layer)   ->     slice_update
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_LAST: Final = int(np.iinfo(np.int32).max)


def call_positions(values: Any, node: Any, _: Any) -> Any:
    """Count positions from the sizes of the inputs."""
    from coreai._compiler.dialects import coreai
    from coreai_torch._utils import get_operands

    tokens, sized = get_operands(values, node, [0, 1])
    end = coreai.broadcasting_sub(_size(sized, len(sized.type.shape) - 1), _numbers(node.args[2]))
    start = coreai.broadcasting_sub(end, _size(tokens, 1))
    return coreai.range_(*(coreai.shrink_dims(each, [0]) for each in (start, end, _numbers(1))))


def stacked_rows(values: Any, node: Any, _: Any) -> Any:
    """Write rows of one layer."""
    from coreai._compiler.dialects import coreai
    from coreai_torch._utils import get_operands

    cache, rows, start = get_operands(values, node, [0, 1, 2])
    layer = node.args[3]
    after = coreai.broadcasting_add(start, _size(rows, 2))
    begin = coreai.concat(0, [_numbers(layer, 0, 0), start, _numbers(0)])
    end = coreai.concat(0, [_numbers(layer + 1, _LAST, _LAST), after, _numbers(_LAST)])
    shape = coreai.concat(0, [_numbers(1), coreai.cast(coreai.get_shape(rows), np.int32)])
    return coreai.slice_update(cache, begin, end, [1, 1, 1, 1, 1], coreai.reshape(rows, shape))


def _size(value: Any, dimension: int) -> Any:
    """A dimension, int32 [1]."""
    from coreai._compiler.dialects import coreai

    bounds = (_numbers(dimension), _numbers(dimension + 1), _numbers(1))
    return coreai.cast(coreai.slice_(coreai.get_shape(value), *bounds), np.int32)


def _numbers(*values: int) -> Any:
    """A constant, int32."""
    from coreai._compiler.dialects import coreai

    return coreai.constant(list(values), dtype=np.int32)
