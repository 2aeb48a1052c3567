"""With an index of readers ONNX Runtime's quantiser writes the very model that it writes without one."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from edgec.backends.qnn.indexed_nodes import indexed_nodes  # noqa: E402
from tests.backends.qnn.test_activation_ranges import Reader, model_at  # noqa: E402


def quantised(source: Path, target: Path, block: Any) -> bytes:
    from onnxruntime.quantization import QuantType, quantize
    from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config

    feeds = [{"x": np.random.default_rng(0).normal(0, 1, (2, 4)).astype(np.float32)}]
    config = get_qnn_qdq_config(
        source, Reader(feeds), activation_type=QuantType.QUInt16, weight_type=QuantType.QInt8, per_channel=True
    )
    with block:
        quantize(str(source), str(target), config)
    return target.read_bytes()


def test_the_model_is_the_same(tmp_path: Path) -> None:
    source = model_at(tmp_path / "model.onnx")
    plain = quantised(source, tmp_path / "plain.onnx", nullcontext())
    assert quantised(source, tmp_path / "indexed.onnx", indexed_nodes()) == plain
    operators = [node.op_type for node in onnx.load_model_from_string(plain).graph.node]
    assert operators.count("QuantizeLinear") >= 4
