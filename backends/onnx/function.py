"""ONNX models as functions of named tensors, and a model that is no decoder as a function of tensors in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from edgec.backends.onnx.methods import TYPES, cpu_session

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Function = Callable[[Sequence[Tensor]], Sequence[Tensor]]


def named_outputs(session: InferenceSession, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Execute a model once; what it does not take is left out, and integers get the width that it takes."""
    feeds = {each.name: given[each.name].to(TYPES[each.type]).contiguous().numpy() for each in session.get_inputs()}
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, map(torch.from_numpy, session.run(names, feeds)), strict=True))


def open_function(path: Path) -> Function:
    """The one model of an artifact.

    Raises:
        InputError: E583, ONNX Runtime refuses it.
        ToolError: E582, there is no ONNX Runtime.
    """
    session = cpu_session(next(path.glob("*.onnx")))
    names = [each.name for each in session.get_inputs()]
    return lambda inputs: list(named_outputs(session, dict(zip(names, inputs, strict=True))).values())
