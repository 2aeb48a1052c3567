"""A float ONNX model in fixed point: 16-bit activations, integer weights on given grids, 8-bit keys and values.

    x -> QuantizeLinear -> DequantizeLinear -> Conv(DequantizeLinear(w int4 or int8)) -> QuantizeLinear -> ...
    key_cache uint8 -> DequantizeLinear -> ...            ... -> QuantizeLinear -> new_key_cache uint8

The ranges of activations are what a text makes of them; ONNX Runtime's quantiser does the rest. States go in and out as
bytes: what a call writes and what later calls read is on one grid, so that a caller only copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from edgec.backends.qnn.activation_ranges import activation_ranges, save_ranges
from edgec.backends.qnn.block_scales import place_blocks
from edgec.backends.qnn.float_weights import IntegerGrid
from edgec.backends.qnn.indexed_nodes import indexed_nodes

ValueRange = tuple[float, float]
_STEPS = 255
_SMALLEST = 1e-6


def write_fixed_point(
    source: Path,
    target: Path,
    feeds: Iterable[Mapping[str, Tensor]],
    weights: Mapping[str, IntegerGrid],
    states: Mapping[str, ValueRange],
) -> None:
    """Quantise a float ONNX model to fixed point.

    Args:
        source: float ONNX.
        target: the model to write; many constants go into a file next to it.
        feeds: the inputs of some calls, by name.
        weights: grids of initializers, by name.
        states: smallest and largest value of each state, by name; bytes hold them.
    """
    import onnx
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config

    model = onnx.load(str(source))
    inputs = {given.name for given in model.graph.input}
    held = {name: bounds for name, bounds in states.items() if name in inputs}
    config = get_qnn_qdq_config(
        model,
        None,
        activation_type=QuantType.QUInt16,
        weight_type=QuantType.QInt8,
        per_channel=True,
        init_overrides=_overrides(model.graph, weights, held),
        add_qtype_converts=False,
    )
    # Otherwise what only moves values in front of the first layer, such as a state's transposition, stays float.
    config.extra_options["ForceQuantizeNoInputCheck"] = True
    _quantize(source, target, config, feeds)
    made = onnx.load(str(target))
    place_blocks(made, onnx.load(str(source)), weights)
    _states_as_bytes(made.graph, list(held))
    onnx.save(made, str(target))


def _quantize(source: Path, target: Path, config: Any, feeds: Iterable[Mapping[str, Tensor]]) -> None:
    """Quantise as a configuration of ONNX Runtime says, with the ranges that the feeds make."""
    from onnxruntime.quantization import quantize_static

    arrays = ({name: value.numpy() for name, value in feed.items()} for feed in feeds)
    with TemporaryDirectory(dir=target.parent) as scratch:
        ranges = Path(scratch) / "ranges.json"
        save_ranges(activation_ranges(source, arrays), ranges)
        with indexed_nodes():
            quantize_static(
                str(source),
                str(target),
                calibration_cache_path=ranges,
                calibrate_method=config.calibrate_method,
                quant_format=config.quant_format,
                activation_type=config.activation_type,
                weight_type=config.weight_type,
                op_types_to_quantize=config.op_types_to_quantize,
                nodes_to_exclude=config.nodes_to_exclude,
                per_channel=config.per_channel,
                use_external_data_format=config.use_external_data_format,
                extra_options=config.extra_options,
            )


def _overrides(graph: Any, weights: Mapping[str, IntegerGrid], states: Mapping[str, ValueRange]) -> dict[str, Any]:
    """The quantiser's overrides: grids of the weights that the graph has, and of states and their new rows."""
    from onnxruntime.quantization import QuantType

    present = {tensor.name for tensor in graph.initializer}
    overrides = {name: _channels(grid) for name, grid in weights.items() if name in present}
    for name, bounds in states.items():
        # New rows are computed in 16 bits and rounded once.
        new = {"quant_type": QuantType.QUInt16, "convert": _bytes(bounds)}
        overrides |= {name: [_bytes(bounds)], f"new_{name}": [new]}
    return overrides


def _channels(grid: IntegerGrid) -> list[dict[str, Any]]:
    """A grid as the quantiser's overrides, one entry per channel; the coarsest block stands for all of a row."""
    import numpy as np
    from onnxruntime.quantization import QuantType

    kind = {4: QuantType.QInt4, 8: QuantType.QInt8}[grid.bits]
    common = {"quant_type": kind, "zero_point": np.array(0, np.int8)}
    scales = [{**common, "scale": np.array(scale, np.float32)} for scale in grid.scale.amax(1).tolist()]
    return [{**scales[0], "axis": 0}, *scales[1:]]


def _bytes(bounds: ValueRange) -> dict[str, Any]:
    """A state's grid: 256 steps over its range, 0 on one of them."""
    import numpy as np
    from onnxruntime.quantization import QuantType

    low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
    scale = max((high - low) / _STEPS, _SMALLEST)
    zero = np.array(round(-low / scale), np.uint8)
    return {"quant_type": QuantType.QUInt8, "scale": np.array(scale, np.float32), "zero_point": zero}


def fixed_feed(feed: Mapping[str, Tensor], states: Mapping[str, ValueRange]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs of a call as arrays, for the float model and for the fixed-point one, whose states are bytes."""
    import numpy as np

    floats = {name: value.numpy() for name, value in feed.items()}
    grids = {name: _bytes(states[name]) for name in floats if name in states}
    held = {
        name: (np.round(floats[name] / grid["scale"]) + grid["zero_point"]).clip(0, _STEPS).astype(np.uint8)
        for name, grid in grids.items()
    }
    return floats, {**floats, **held}


def _states_as_bytes(graph: Any, states: Sequence[str]) -> None:
    """Make states and new rows the integers that the graph computes with anyway."""
    for name in states:
        _input_as_bytes(graph, name)
        _output_as_bytes(graph, f"new_{name}")


def _input_as_bytes(graph: Any, name: str) -> None:
    import onnx

    quantize = next(node for node in graph.node if node.op_type == "QuantizeLinear" and node.input[0] == name)
    for node in graph.node:
        if quantize.output[0] in node.input:
            node.input[0] = name
    graph.node.remove(quantize)
    given = next(value for value in graph.input if value.name == name)
    given.type.tensor_type.elem_type = onnx.TensorProto.UINT8


def _output_as_bytes(graph: Any, name: str) -> None:
    """Give the quantised value the output's name, and the dequantised one another, for readers inside the graph."""
    import onnx

    dequantize = next(node for node in graph.node if name in node.output)
    renamed = {name: f"{name}_dequantized", dequantize.input[0]: name}
    for node in graph.node:
        node.input[:] = [renamed.get(value, value) for value in node.input]
        node.output[:] = [renamed.get(value, value) for value in node.output]
    given = next(value for value in graph.output if value.name == name)
    given.type.tensor_type.elem_type = onnx.TensorProto.UINT8
