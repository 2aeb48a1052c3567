"""Functions of an artifact, which are found by names that edgec gives, never by those of a manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from edgec.bundle.entry_points import MethodInfo
from edgec.bundle.folder import Bundle
from edgec.errors import InputError
from edgec.runtime_py.engines import simulated
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
    with pytest.raises(InputError, match="see") as error:
        simulated._named(functions, "see")
    assert error.value.code == "E157" and "decode, prefill" in error.value.why


def test_values_of_another_shape_than_an_onnx_model_takes_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    kind, helper = onnx.TensorProto.FLOAT, onnx.helper
    values = [helper.make_tensor_value_info(name, kind, [1, 2]) for name in ("pixels", "rows")]
    graph = helper.make_graph([helper.make_node("Neg", ["pixels"], ["rows"])], "see", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, tmp_path / "see.onnx")
    see = simulated.open_function("ONNXRuntime", tmp_path, "see")
    assert see([torch.ones(1, 2)])[0].tolist() == [[-1, -1]]
    with pytest.raises(InputError) as error:
        see([torch.ones(1, 3)])
    assert error.value.code == "E583" and error.value.where == "pixels"
