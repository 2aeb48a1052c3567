"""A non-decoder model on a Snapdragon: look-ups of integers on the CPU, everything else in one context.

input_ids -> host_main.onnx (CPU) -> embeddings, masks -> main.onnx (Hexagon) -> outputs          image -> main.onnx
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from torch import Tensor

from edgec.backends.onnx.methods import TensorFunction, cpu_session, named_outputs
from edgec.backends.qnn.context import FIXED_POINT, INPUTS, SOC, check_beside, folders
from edgec.backends.qnn.htp import compile_contexts

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


def open_function(path: Path) -> TensorFunction:
    """Load the artifact in Qualcomm's emulation, compiled again from the fixed-point model next to it.

    Raises:
        ToolError: E598, it is not there, as in a bundle; E592, the emulation is not installed.
    """
    check_beside(path)
    (model,) = _fixed_point(path)
    with TemporaryDirectory() as scratch:
        (session,) = compile_contexts({model: Path(scratch) / model.name}, int((path / SOC).read_text()))
    return _function(path, session)


def open_function_on_cpu(path: Path) -> TensorFunction:
    """Load the fixed-point model that the artifact was compiled from, on ONNX Runtime's CPU kernels."""
    (model,) = _fixed_point(path)
    return _function(path, cpu_session(model))


def _fixed_point(path: Path) -> list[Path]:
    return sorted(folders(path.parent / FIXED_POINT)[0].glob("*.onnx"))


def _function(path: Path, accelerated: InferenceSession) -> TensorFunction:
    names = (path / INPUTS).read_text().split()
    hosts = [cpu_session(model) for model in folders(path)[0].glob("host_*.onnx")]

    def call(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        given = dict(zip(names, inputs, strict=True))
        for host in hosts:
            given |= named_outputs(host, given)
        return list(named_outputs(accelerated, given).values())

    return call
