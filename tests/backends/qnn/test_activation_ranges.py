"""Ranges of activations are those that ONNX Runtime's own calibrator measures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from edgec.backends.qnn.activation_ranges import activation_ranges, save_ranges  # noqa: E402


def model_at(place: Path) -> Path:
    """y = relu(x w) + x, z = the sum of a row of y, both outputs; a tensor of integers beside."""
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    weight = onnx.numpy_helper.from_array(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4), "w")
    axes = onnx.numpy_helper.from_array(np.array([1], np.int64), "axes")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["positive"]),
        helper.make_node("Add", ["positive", "x"], ["y"]),
        helper.make_node("ReduceSum", ["y", "axes"], ["z"]),
        helper.make_node("Shape", ["y"], ["shape"]),
    ]
    given = [helper.make_tensor_value_info("x", floats, [2, 4])]
    outputs = [helper.make_tensor_value_info(name, floats, None) for name in ("y", "z")]
    outputs.append(helper.make_tensor_value_info("shape", onnx.TensorProto.INT64, [2]))
    graph = helper.make_graph(nodes, "g", given, outputs, [weight, axes])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), str(place))
    return place


class Reader:
    """The feeds as the library asks for them."""

    def __init__(self, feeds: list[dict[str, np.ndarray]]) -> None:
        self.feeds = list(feeds)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.feeds.pop(0) if self.feeds else None


def test_ranges_are_those_of_the_library(tmp_path: Path) -> None:
    from onnxruntime.quantization.calibrate import create_calibrator, load_tensors_data

    chance = np.random.default_rng(0)
    feeds = [{"x": chance.normal(0, size, (2, 4)).astype(np.float32)} for size in (1, 30, 0.1)]
    source = model_at(tmp_path / "model.onnx")
    found = activation_ranges(source, feeds)
    calibrator = create_calibrator(source, augmented_model_path=str(tmp_path / "augmented.onnx"))
    calibrator.collect_data(Reader(feeds))
    wanted = {name: data.range_value for name, data in calibrator.compute_data().items()}
    assert found.keys() == wanted.keys() == {"x", "product", "positive", "y", "z"}
    assert all(found[name] == (float(low[0]), float(high[0])) for name, (low, high) in wanted.items())
    save_ranges(found, tmp_path / "ranges.json")
    read = load_tensors_data(tmp_path / "ranges.json")
    kept = {name: tuple(float(bound[0]) for bound in data.range_value) for name, data in read.items()}
    assert kept == found


def test_values_that_are_not_numbers_do_not_hide_others(tmp_path: Path) -> None:
    feeds = [{"x": np.full((2, 4), np.nan, np.float32)}, {"x": np.ones((2, 4), np.float32)}]
    assert activation_ranges(model_at(tmp_path / "model.onnx"), feeds)["x"] == (1.0, 1.0)
