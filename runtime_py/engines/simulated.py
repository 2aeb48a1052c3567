"""Bundles for units that this machine lacks: an interpreter's results are real, its times are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from edgec.backends.forms import FORMS
from edgec.bundle.entry_points import MethodInfo
from edgec.bundle.manifest import Manifest
from edgec.errors import InputError
from edgec.runtime_py.engines.executor import Array, Executor

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from edgec.backends.onnx.methods import TensorFunction
    from edgec.bundle.folder import Bundle


def simulator_threads(threads: int | None) -> int:
    """Set torch's threads, which compute here, and return how many there are.

    Raises:
        InputError: E156, ``threads`` is below 1.
    """
    import torch

    if threads is not None and threads < 1:
        raise InputError(f"{threads} threads were asked for.", where="--threads", fix="give 1 or more", code="E156")
    if threads is not None:
        torch.set_num_threads(threads)
    return torch.get_num_threads()


def open_simulated(bundle: Bundle) -> Executor:
    """Load a bundle's artifact: a decoder's static methods, or its one function.

    Raises:
        InputError: E42x, the artifact cannot be executed here; E428, its backends are unknown.
        ToolError: E43x, what executes it is not installed.
    """
    manifest = bundle.manifest
    if manifest.limits is None:
        if manifest.runtime.backends[0] not in _FUNCTIONS:
            raise _unknown(manifest)
        return FunctionExecutor(open_function(manifest.runtime.backends[0], bundle.artifact_path), manifest.methods[0])
    # Imports torch.
    from edgec.backends.static_artifact import backend_of
    from edgec.runtime_py.engines.static_decoder import StaticDecoder

    form = next((form for form in FORMS.values() if set(form.backends) == set(manifest.runtime.backends)), None)
    if form is None:
        raise _unknown(manifest)
    recurrent = any(state.layout == "recurrent" for state in manifest.states)
    return StaticDecoder(backend_of(form.module).execute(bundle.artifact_path), manifest.limits, recurrent)


def _unknown(manifest: Manifest) -> InputError:
    return InputError(
        "Nothing here executes this artifact.",
        where=manifest.name,
        why=f"it is made for {', '.join(manifest.runtime.backends)}, a combination that this edgec does not know",
        fix="use the edgec that exported it, or export again",
        code="E428",
    )


class FunctionExecutor:
    """A function of named arrays as an ``Executor``, which knows only their order."""

    def __init__(self, call: TensorFunction, info: MethodInfo) -> None:
        """``info`` names the inputs and outputs in order, with their dtypes."""
        self._call, self._info = call, info

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Execute once; outputs in the manifest's dtypes."""
        import torch

        results = self._call([torch.from_numpy(np.ascontiguousarray(array)) for array in inputs])
        dtypes = [info.dtype.removeprefix("torch.") for info in self._info.outputs]
        return [result.numpy().astype(dtype) for result, dtype in zip(results, dtypes, strict=True)]

    lend = run

    @property
    def state(self) -> None:
        """None: a function has no state."""
        return None


def _package(path: Path) -> TensorFunction:
    from edgec.backends.coreml.interpreter import load_package

    package = load_package(path)
    return _by_order(package.functions[package.default_function])


def _pte(path: Path) -> TensorFunction:
    from edgec.backends.coreml.pte_program import open_pte

    return next(iter(open_pte(path).methods.values())).run


def _aimodel(path: Path) -> TensorFunction:
    from edgec.backends.coreai.execute import load_model

    return _by_order(next(iter(load_model(path).functions.values())))


def _onnx(path: Path) -> TensorFunction:
    from edgec.backends.onnx.methods import open_function

    return open_function(path)


def _qnn(path: Path) -> TensorFunction:
    from edgec.backends.qnn.function import open_function

    return open_function(path)


def _by_order(function: Any) -> TensorFunction:
    def call(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        names = [feature.name for feature in function.inputs]
        outputs = function.run(dict(zip(names, inputs, strict=True)))
        return [outputs[feature.name] for feature in function.outputs]

    return call


def open_function(backend: str, artifact: Path) -> TensorFunction:
    """Open an artifact's one function, called with tensors in order; ``backend`` as its runtime names it."""
    return _FUNCTIONS[backend](artifact)


_FUNCTIONS: Mapping[str, Callable[[Path], TensorFunction]] = {
    "CoreMLBackend": _pte,
    "CoreML": _package,
    "CoreAI": _aimodel,
    "ONNXRuntime": _onnx,
    "QNNExecutionProvider": _qnn,
}
