"""A model that is no decoder as a function of tensors in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from torch import Tensor

from edgec.backends.onnx.methods import cpu_session, named_outputs

TensorFunction = Callable[[Sequence[Tensor]], Sequence[Tensor]]


def open_function(path: Path) -> TensorFunction:
    """The one model of an artifact.

    Raises:
        InputError: E583, ONNX Runtime refuses it.
        ToolError: E582, there is no ONNX Runtime.
    """
    session = cpu_session(next(path.glob("*.onnx")))
    names = [each.name for each in session.get_inputs()]
    return lambda inputs: list(named_outputs(session, dict(zip(names, inputs, strict=True))).values())
