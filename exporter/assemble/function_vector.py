"""The golden vector of a module: its outputs on inputs that any language can make."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgec.backends.forms import Form
from edgec.bundle.entry_points import TensorInfo
from edgec.bundle.golden import FunctionVector, probe_values
from edgec.bundle.golden_function import function_vector
from edgec.errors import BudgetError
from edgec.exporter.assemble.tolerances import golden_tolerances
from edgec.exporter.pipeline import CompiledModel
from edgec.exporter.stages.artifact import function_of

# Inputs this much larger say which integers another order of sums might change.
_NUDGED = 1 + 2.0**-9


def module_vector(compiled: CompiledModel, form: Form) -> FunctionVector:
    """A module's outputs on inputs that are easy to generate again in any language.

    Raises:
        BudgetError: E204, an output has no finite number on these inputs.
    """
    method = compiled.facts.methods[0]
    bounds = {tensor.name: 2 for tensor in method.inputs if not tensor.dtype.startswith("float")}
    values = [
        torch.from_numpy(probe_values(method.largest(tensor), tensor.dtype, bounds.get(tensor.name, 0)))
        for tensor in method.inputs
    ]
    function = function_of(compiled.artifact, form)
    named: dict[str, Any] = {
        info.name: _numbers(info, out) for info, out in zip(method.outputs, function(values), strict=True)
    }
    counted = [info.name for info in method.outputs if not info.dtype.startswith("float")]
    if counted:
        moved = [value * _NUDGED if value.is_floating_point() else value for value in values]
        again = zip(method.outputs, function(moved), strict=True)
        named |= {
            info.name: _steady(named[info.name], _numbers(info, out)) for info, out in again if info.name in counted
        }
    for name, each in named.items():
        _require_numbers(name, each)
    given = [(tuple(value.shape), not value.is_floating_point()) for value in values]
    return function_vector(bounds, named, **golden_tolerances(form), inputs=given, counted=counted)


def _require_numbers(name: str, values: Any) -> None:
    if not np.isfinite(values).any():
        raise BudgetError(
            what=f"The output {name} holds no finite number.",
            where="the golden vectors, which every phone replays",
            why="on made-up inputs between -1 and 1 (integers: 0 and 1) the artifact gives NaN or infinities alone",
            fix="keep the module's arithmetic defined on such inputs, for example by a clamp before a logarithm",
            code="E204",
        )


def _numbers(info: TensorInfo, value: Tensor) -> Any:
    """An output's values in the format that holds them; integers as floats."""
    return (value.half() if info.dtype == "float16" else value.double()).numpy()


def _steady(values: Any, again: Any) -> Any:
    """Integers without those that the least change of the inputs decides otherwise, where any stay."""
    steady = values == again
    return np.where(steady, values, np.nan) if steady.any() else values
