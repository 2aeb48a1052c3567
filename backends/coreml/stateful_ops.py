"""Converters for the operators of a decoder that another runtime calls (``edgec.ir.stateful_call``).

edgec::call_positions(tokens, sized, beyond)     ->     range_1d(shape(sized)[-1] - beyond - shape(tokens)[1], ...)
edgec::stacked_rows(cache, rows, start, layer)   ->     slice_update -> coreml_update_state

Each layer's rows are written to the state at once, as an update in place: with one update after the last layer, Core ML
would hold a copy of all caches for every layer.
"""

from __future__ import annotations

from typing import Any


def call_positions(context: Any, node: Any) -> None:
    """Count positions from the sizes of the inputs."""
    import numpy as np
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.frontend.torch.ops import _get_inputs

    tokens, sized, beyond = _get_inputs(context, node, expected=3)
    size, extent = _size(tokens, 1), _size(sized, sized.rank - 1)
    end = mb.sub(x=extent, y=np.array([beyond.val], np.int32))
    start = mb.squeeze(x=mb.sub(x=end, y=size))
    positions = mb.range_1d(start=start, end=mb.squeeze(x=end), step=np.int32(1), name=node.name)
    context.add(positions, torch_name=node.name)


def stacked_rows(context: Any, node: Any) -> None:
    """Write rows of one layer; the converter itself writes the last layer's to the state."""
    import numpy as np
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.frontend.torch.ops import _get_inputs
    from coremltools.converters.mil.mil import types

    cache, rows, start, layer = _get_inputs(context, node, expected=4)
    place, state = int(layer.val), context.name_to_source_state[node.inputs[0]]
    rows = mb.cast(x=mb.expand_dims(x=rows, axes=[0]), dtype=types.builtin_to_string(cache.dtype))
    rest = np.zeros(1, np.int32)
    begin = mb.concat(values=[np.array([place, 0, 0], np.int32), start, rest], axis=0)
    after = mb.add(x=start, y=_size(rows, 3))
    end = mb.concat(values=[np.array([place + 1, 0, 0], np.int32), after, rest], axis=0)
    whole = [False, True, True, False, True]
    given = {"x": cache, "update": rows, "begin": begin, "end": end, "begin_mask": whole, "end_mask": whole}
    if place == cache.shape[0] - 1:
        updated = mb.slice_update(**given, name=node.name)
    else:
        half = mb.cast(x=mb.slice_update(**given), dtype="fp16")
        written = mb.coreml_update_state(state=state, value=half)
        updated = mb.cast(x=written, dtype=types.builtin_to_string(cache.dtype), name=node.name)
        context.name_to_source_state[node.name] = state
    context.add(updated, torch_name=node.name)


def _size(value: Any, dimension: int) -> Any:
    """A dimension, int32 [1]."""
    from coremltools.converters.mil import Builder as mb

    return mb.slice_by_index(x=mb.shape(x=value), begin=[dimension], end=[dimension + 1])
