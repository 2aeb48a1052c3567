"""Bundles for units that this machine lacks: an interpreter's results are real, its times are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgec.backends.forms import FORMS
from edgec.bundle.entry_points import FORWARD, MethodInfo, source_memory
from edgec.bundle.manifest import Manifest
from edgec.errors import InputError
from edgec.runtime_py.engines.executor import Array, Executor
from edgec.runtime_py.engines.named_function import by_order, unfitting

_DEFAULT: Final = ("", FORWARD)
"""What `open_simulated` calls a decoder's methods of fixed shapes, and the function of a model that has one."""

if TYPE_CHECKING:
    from pathlib import Path

    from edgec.backends.onnx.methods import TensorFunction
    from edgec.bundle.folder import Bundle


def open_simulated(bundle: Bundle, method: str = "", on_mac: bool = False) -> Executor:
    """Load a bundle's artifact: a decoder's static methods, or one function.

    Args:
        bundle: of a unit that this machine lacks, or of Apple's on a Mac.
        method: empty or ``forward`` for a decoder's methods, or for the function of a model that is none; else a
            function.
        on_mac: the Mac itself executes it.

    Raises:
        InputError: E42x, the artifact cannot be executed here; E428, its backends are unknown.
        ToolError: E43x, what executes it is not installed; E920, Core ML refuses it.
    """
    manifest = bundle.manifest
    limits = manifest.writing_limits
    if limits is None or method not in _DEFAULT:
        return _open_function(bundle, method, on_mac)
    # Imports torch.
    from edgec.backends.static_artifact import backend_of
    from edgec.runtime_py.engines.apple import apple_methods
    from edgec.runtime_py.engines.static_decoder import StaticDecoder

    form = next((form for form in FORMS.values() if set(form.backends) == set(manifest.runtime.backends)), None)
    if form is None:
        raise _unknown(manifest)
    # Of both, what is held goes up to the last token that was asked for.
    recurrent = form.growing or any(state.layout == "recurrent" for state in manifest.states)
    slots = min((state.slots for state in manifest.states if state.layout == "full"), default=0)
    methods = apple_methods(bundle) if on_mac else backend_of(form.module).execute(bundle.artifact_path)
    return StaticDecoder(methods, limits, recurrent, _row_inputs(manifest), slots, _memory_inputs(manifest))


def _open_function(bundle: Bundle, method: str, on_mac: bool) -> Executor:
    """A function of the artifact; the only one, or one beside a decoder's methods."""
    manifest = bundle.manifest
    if manifest.runtime.backends[0] not in _FUNCTIONS:
        raise _unknown(manifest)
    info = next((each for each in manifest.methods if each.name == method), manifest.methods[0])
    # A name of edgec's own, never one that the manifest gives: ONNX models are opened by their file names.
    named = None if method in _DEFAULT else method
    if on_mac:
        from edgec.runtime_py.engines.apple import apple_function

        return FunctionExecutor(apple_function(bundle, named), info)
    return FunctionExecutor(open_function(manifest.runtime.backends[0], bundle.artifact_path, named), info)


def _row_inputs(manifest: Manifest) -> list[str]:
    """What the decoder's methods read beside tokens and positions, in their order."""
    from edgec.ir.row_inputs import ROW_INPUTS

    given = [{tensor.name for tensor in method.inputs} for method in manifest.methods]
    return [name for name in ROW_INPUTS if any({name, "tokens"} <= names for names in given)]


def _memory_inputs(manifest: Manifest) -> list[str]:
    """What the decoder's methods know of an encoder's source, in their order."""
    return [] if manifest.encoder_decoder is None else source_memory(manifest.methods)


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
        """Execute once; outputs in the manifest's dtypes.

        Raises:
            InputError: E157, the artifact's function has other inputs or outputs than the manifest says.
        """
        import torch

        results = self._call([torch.from_numpy(np.ascontiguousarray(array)) for array in inputs])
        dtypes = [info.dtype.removeprefix("torch.") for info in self._info.outputs]
        if len(results) != len(dtypes):
            raise unfitting(self._info.name, f"it gives {len(results)} outputs, and the manifest has {len(dtypes)}")
        return [result.numpy().astype(dtype) for result, dtype in zip(results, dtypes, strict=True)]

    lend = run

    @property
    def state(self) -> None:
        """None: a function has no state."""
        return None


def _package(path: Path, method: str | None) -> TensorFunction:
    from edgec.backends.coreml.mlpackage import function_of

    return by_order(function_of(path, method))


def _pte(path: Path, method: str | None) -> TensorFunction:
    from edgec.backends.coreml.pte_program import open_pte

    result: TensorFunction = _named(open_pte(path).methods, method).run
    return result


def _aimodel(path: Path, method: str | None) -> TensorFunction:
    from edgec.backends.coreai.execute import load_model

    return by_order(_named(load_model(path).functions, method))


def _onnx(path: Path, method: str | None) -> TensorFunction:
    from edgec.backends.onnx.methods import open_function

    return open_function(path, method)


def _qnn(path: Path, method: str | None) -> TensorFunction:
    from edgec.backends.qnn.function import open_function

    return open_function(path)


def _litert(path: Path, method: str | None) -> TensorFunction:
    from edgec.backends.litert.network import open_function

    return open_function(path)


def _named(functions: Mapping[str, Any], name: str | None) -> Any:
    """A function of an artifact; the first where no name is given.

    Raises:
        InputError: E157, there is none of this name.
    """
    if name is None:
        return next(iter(functions.values()))
    if name not in functions:
        what, why = f"The artifact has no function {name!r}.", f"it has {', '.join(sorted(functions)) or 'none'}"
        raise InputError(what, where=name, why=why, fix="export the model again", code="E157")
    return functions[name]


def open_function(backend: str, artifact: Path, method: str | None = None) -> TensorFunction:
    """Open a function of an artifact, called with tensors in order.

    Args:
        backend: as its runtime names it.
        artifact: the file or folder.
        method: the function's name; None where there is one alone.
    """
    return _FUNCTIONS[backend](artifact, method)


_FUNCTIONS: Mapping[str, Callable[[Path, str | None], TensorFunction]] = {
    "CoreMLBackend": _pte,
    "CoreML": _package,
    "CoreAI": _aimodel,
    "ONNXRuntime": _onnx,
    "LiteRT": _litert,
    "QNNExecutionProvider": _qnn,
}
