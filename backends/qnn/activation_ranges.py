"""The smallest and largest value of each activation of an ONNX model, over the inputs of some calls.

    node -> x                    ==>      node -> x -> ReduceMin -> outputs
                                                  x -> ReduceMax -> outputs

ONNX Runtime's own calibrator measures the same, but looks for the place of each new node from the graph's beginning,
twice for every tensor: for SmolLM2-135M (30 layers) that alone took more than 20 CPU minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

TensorRanges = dict[str, tuple[float, float]]
_LEAST, _MOST = "ReduceMin", "ReduceMax"


def activation_ranges(source: Path, feeds: Iterable[Mapping[str, NDArray[Any]]]) -> TensorRanges:
    """Measure the range of every float tensor except constants.

    Args:
        source: float ONNX.
        feeds: the inputs of the calls, by name; one at least.
    """
    from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions
    from onnxruntime.quantization.quant_utils import load_model_with_shape_infer

    model = load_model_with_shape_infer(source)
    names = _observed(model.graph)
    _observe(model.graph, names)
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    with TemporaryDirectory(dir=source.parent) as scratch:
        place = _saved(model, Path(scratch) / "observed.onnx")
        session = InferenceSession(place, options, providers=["CPUExecutionProvider"])
        seen = [np.array([float(value) for value in session.run(None, dict(feed))]) for feed in feeds]
    every = np.stack(seen)
    least, most = np.fmin.reduce(every[:, ::2]), np.fmax.reduce(every[:, 1::2])
    return {name: (float(a), float(b)) for name, a, b in zip(names, least, most, strict=True)}


def save_ranges(ranges: TensorRanges, place: Path) -> None:
    """Write ranges as the quantiser of ONNX Runtime reads them in place of calibrating (``calibration_cache_path``)."""
    from onnxruntime.quantization.calibrate import CalibrationMethod, TensorsData, save_tensors_data

    pairs = {name: tuple(np.array([bound], np.float32) for bound in bounds) for name, bounds in ranges.items()}
    save_tensors_data(TensorsData(CalibrationMethod.MinMax, pairs), place)


def _observed(graph: Any) -> list[str]:
    """The float tensors that nodes read or write, in the order of the graph, without its constants."""
    from onnx import TensorProto

    described = (*graph.value_info, *graph.output, *graph.input)
    floats = {each.name for each in described if each.type.tensor_type.elem_type == TensorProto.FLOAT}
    constants = {tensor.name for tensor in graph.initializer}
    names = (name for node in graph.node for name in (*node.input, *node.output))
    return [name for name in dict.fromkeys(names) if name in floats and name not in constants]


def _observe(graph: Any, names: list[str]) -> None:
    """Put the bounds of tensors, each after what makes it, in place of the graph's outputs."""
    from onnx import TensorProto, helper

    wanted = set(names)

    def bounds(made: Iterable[str]) -> list[Any]:
        pairs = [(kind, name) for name in made if name in wanted for kind in (_LEAST, _MOST)]
        return [helper.make_node(kind, [name], [f"{name}_{kind}"], keepdims=0) for kind, name in pairs]

    nodes = bounds(given.name for given in graph.input)
    for node in graph.node:
        nodes += [node, *bounds(node.output)]
    outputs = [f"{name}_{kind}" for name in names for kind in (_LEAST, _MOST)]
    del graph.output[:]
    graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in outputs)
    copied = [_copy(node) for node in nodes]
    del graph.node[:]
    graph.node.extend(copied)


def _copy(node: Any) -> Any:
    from onnx import NodeProto

    copied = NodeProto()
    copied.CopyFrom(node)
    return copied


def _saved(model: Any, place: Path) -> str:
    import onnx

    onnx.save(model, str(place), save_as_external_data=True, location=f"{place.name}.data")
    return str(place)
