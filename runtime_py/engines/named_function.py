"""A function whose inputs and outputs have names, called with tensors in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgec.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from edgec.backends.onnx.methods import TensorFunction


def by_order(function: Any) -> TensorFunction:
    """A function of named tensors, called with them in the order of its inputs."""

    def call(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        names = [feature.name for feature in function.inputs]
        if len(names) != len(inputs):
            raise unfitting(function.name, f"it takes {len(names)} inputs, and the manifest has {len(inputs)}")
        outputs = function.run(dict(zip(names, inputs, strict=True)))
        return [outputs[feature.name] for feature in function.outputs]

    return call


def unfitting(method: str, why: str) -> InputError:
    """The error of a function that has other inputs or outputs than the manifest says."""
    return InputError(
        f"The artifact's function {method!r} does not fit its bundle.",
        where=method,
        why=why,
        fix="export the model again",
        code="E157",
    )
