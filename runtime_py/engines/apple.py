"""What is made for Apple's chips, on a Mac: packages by Core ML itself, delegates in a .pte by ExecuTorch's own.

Nothing of it has run on a Mac yet: the tests call it with stand-ins for coremltools and for ExecuTorch's binding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import Tensor

from edgec.backends.coreml.mac import CoreMLTools
from edgec.backends.coreml.on_mac import on_mac
from edgec.bundle.entry_points import FORWARD
from edgec.devices.targets import load_target
from edgec.runtime_py.engines.bound_method import BoundMethod
from edgec.runtime_py.engines.named_function import by_order

if TYPE_CHECKING:
    from edgec.backends.onnx.methods import TensorFunction
    from edgec.bundle.folder import Bundle
    from edgec.ir.static_methods import Methods


@dataclass(frozen=True)
class DelegatedMethod:
    """A method of a program in ExecuTorch's runtime, called with tensors in order."""

    method: BoundMethod

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Execute it once; outputs are fresh copies."""
        return [torch.from_numpy(np.array(out)) for out in self.method.run([tensor.numpy() for tensor in inputs])]


@dataclass(frozen=True)
class GrowingDelegate:
    """The one method of a program for MLX under the protocol of static methods, which feed it a chunk or a token.

    Attributes:
        method: takes tokens and positions, and keeps its caches.
        chunk: tokens that one call takes at most.
    """

    method: DelegatedMethod
    chunk: int

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Feed the tokens of a call without their padding: logits of the last, float32 [V]."""
        size, start = int(inputs["last"]) + 1, int(inputs["start"])
        (logits,) = self.method.run([inputs["tokens"][:, :size].long(), torch.arange(start, start + size)])
        return logits.float().reshape(-1)


def apple_methods(bundle: Bundle) -> Methods:
    """The methods of a decoder, executed by this Mac.

    Raises:
        InputError: E157, ExecuTorch refuses the program; E421 and E424, it is damaged.
        ToolError: E920, Core ML refuses the package.
    """
    return _METHODS[bundle.manifest.runtime.backends[0]](bundle)


def apple_function(bundle: Bundle, method: str | None) -> TensorFunction:
    """One function, executed by this Mac.

    Args:
        bundle: of a model other than a decoder, or of a decoder with functions beside its own.
        method: the function's name; None where there is one alone.
    """
    if bundle.manifest.runtime.backends[0] == "CoreML":
        from edgec.backends.coreml.mlpackage import function_of

        return by_order(function_of(bundle.artifact_path, method, on_mac(_tools(bundle))))
    return DelegatedMethod(BoundMethod(bundle.artifact_path, method or FORWARD)).run


def _tools(bundle: Bundle) -> CoreMLTools:
    return CoreMLTools(load_target(bundle.manifest.target).unit)


def _packages(bundle: Bundle) -> Methods:
    from edgec.backends.coreml.mlpackage import execute

    return execute(bundle.artifact_path, on_mac(_tools(bundle)))


def _core_ml_inside(bundle: Bundle) -> Methods:
    from edgec.backends.coreml.pte import execute

    # The interpreter's methods say what they take and give, by name.
    program = execute(bundle.artifact_path)
    methods = {name: DelegatedMethod(BoundMethod(bundle.artifact_path, name)) for name in program.methods}
    return replace(program, methods=methods)


def _mlx_inside(bundle: Bundle) -> Methods:
    from edgec.backends.mlx.execute import most_tokens

    method = DelegatedMethod(BoundMethod(bundle.artifact_path, FORWARD))
    return GrowingDelegate(method, most_tokens(bundle.artifact_path))


_METHODS: Final[Mapping[str, Callable[[Bundle], Methods]]] = {
    "CoreML": _packages,
    "CoreMLBackend": _core_ml_inside,
    "MLXBackend": _mlx_inside,
}
