"""Functions of an artifact, which are found by names that edgec gives, never by those of a manifest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from edgec.bundle.entry_points import MethodInfo, TensorInfo
from edgec.bundle.folder import Bundle
from edgec.errors import InputError
from edgec.runtime_py.engines import simulated
from edgec.runtime_py.engines.named_function import by_order
from tests.bundle.bundle_samples import sample_manifest


def test_a_name_in_a_manifest_is_no_path(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "bundle" / "model.onnx").mkdir(parents=True)
    for path in ("bundle/model.onnx/inside.onnx", "outside.onnx"):
        (tmp_path / path).write_bytes(b"no model")
    methods = [MethodInfo(name=name, inputs=[], outputs=[]) for name in ("../../outside", "other")]
    manifest = sample_manifest(methods=methods, limits=None, states=[], artifact="model.onnx")
    runtime = manifest.runtime.model_copy(update={"backends": ["ONNXRuntime"]})
    bundle = Bundle(tmp_path / "bundle", manifest.model_copy(update={"runtime": runtime}), True)
    with pytest.raises(InputError) as error:
        simulated.open_simulated(bundle)
    assert error.value.code == "E583" and error.value.where == "inside.onnx"


def test_a_function_that_is_absent_is_refused_by_name() -> None:
    functions: dict[str, Any] = {"prefill": 1, "decode": 2}
    assert simulated._named(functions, "decode") == 2 and simulated._named(functions, None) == 1
    with pytest.raises(InputError, match="vision_encoder") as error:
        simulated._named(functions, "vision_encoder")
    assert error.value.code == "E157" and "decode, prefill" in error.value.why


def test_values_of_another_shape_than_an_onnx_model_takes_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    kind, helper = onnx.TensorProto.FLOAT, onnx.helper
    values = [helper.make_tensor_value_info(name, kind, [1, 2]) for name in ("pixels", "rows")]
    graph = helper.make_graph([helper.make_node("Neg", ["pixels"], ["rows"])], "vision_encoder", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, tmp_path / "vision_encoder.onnx")
    see = simulated.open_function("ONNXRuntime", tmp_path, "vision_encoder")
    assert see([torch.ones(1, 2)])[0].tolist() == [[-1, -1]]
    with pytest.raises(InputError) as error:
        see([torch.ones(1, 3)])
    assert error.value.code == "E583" and error.value.where == "pixels"
    with pytest.raises(InputError, match="takes 1 inputs") as error:
        see([torch.ones(1, 2), torch.ones(1, 2)])
    assert error.value.code == "E583" and error.value.where == "vision_encoder"


class Halves:
    """A function of one input and two outputs, as the interpreters load them."""

    name = "vision_encoder"
    inputs = (SimpleNamespace(name="pixels"),)
    outputs = (SimpleNamespace(name="first"), SimpleNamespace(name="second"))

    def run(self, given: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        first, second = given["pixels"].chunk(2)
        return {"first": first, "second": second}


@pytest.mark.parametrize(("inputs", "outputs", "why"), [(1, 1, "gives 2 outputs"), (2, 2, "takes 1 inputs")])
def test_a_function_with_other_inputs_or_outputs_than_its_manifest_is_refused(
    inputs: int, outputs: int, why: str
) -> None:
    tensor = TensorInfo(name="x", dtype="float32", shape=[2])
    info = MethodInfo(name="vision_encoder", inputs=[tensor] * inputs, outputs=[tensor] * outputs)
    executor = simulated.FunctionExecutor(by_order(Halves()), info)
    with pytest.raises(InputError, match=why) as error:
        executor.run([np.ones(2, np.float32)] * inputs)
    assert error.value.code == "E157" and error.value.where == "vision_encoder"
