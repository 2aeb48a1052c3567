"""A .aimodel executed by Apple's own Core AI runtime, whose Linux wheel computes on the CPU."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgec.backends.coreml.interpreter.features import Feature
from edgec.errors import InputError, ToolError
from edgec.installation import install_command
from edgec.platform_parts import require_parts

CoreAIState = dict[str, Tensor]


@dataclass(frozen=True)
class CoreAIFunction:
    """A loaded function; the caller holds the states, as with ``edgec.backends.coreml.interpreter.MilFunction``.

    Attributes:
        name: the entry point.
        inputs: what it takes.
        outputs: what it gives.
        states: what it reads and writes.
        runtime: where it is loaded.
    """

    name: str
    inputs: tuple[Feature, ...]
    outputs: tuple[Feature, ...]
    states: tuple[Feature, ...]
    runtime: CoreAIRuntime

    def fresh_state(self) -> CoreAIState:
        """States as they are before the first call: zeros."""
        return {state.name: torch.zeros(state.fixed_shape, dtype=state.dtype) for state in self.states}

    def run(self, inputs: Mapping[str, Tensor], state: CoreAIState | None = None) -> dict[str, Tensor]:
        """Execute the function once.

        Args:
            inputs: a tensor per input; numbers of another width are converted.
            state: a tensor per state; the entries are replaced by what the function leaves in them.

        Returns:
            A tensor per output.

        Raises:
            InputError: E422, names or shapes are not the function's; E426, the runtime fails.
        """
        held: CoreAIState = {} if state is None else state
        given, states = _arrays(self.name, self.inputs, inputs), _arrays(self.name, self.states, held)
        answer = self.runtime.ask((self.name, given, states))
        if isinstance(answer, str):
            raise _failed(f"function {self.name!r}", "executed", answer)
        outputs, states = answer
        held.update({name: torch.from_numpy(array) for name, array in states.items()})
        return {name: torch.from_numpy(array) for name, array in outputs.items()}


@dataclass(frozen=True)
class CoreAIModel:
    """A loaded .aimodel; its functions share weights."""

    path: Path
    functions: Mapping[str, CoreAIFunction]


class CoreAIRuntime:
    """Apple's runtime with one model in a separate process, which ends with this object."""

    def __init__(self, path: Path) -> None:
        """Start the process; the first ``ask`` returns a description of the model's functions."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the process)
        command = [sys.executable, "-m", "edgec.backends.coreai.worker", str(path)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, bufsize=-1
        )
        weakref.finalize(self, _end, self._process)

    def ask(self, request: Any = None) -> Any:
        """Send a request, if there is one, and wait for the next answer.

        Raises:
            InputError: E426, the process ended.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            if request is not None:
                pickle.dump(request, self._process.stdin, protocol=5)
                self._process.stdin.flush()
            return pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as cause:
            self._process.wait()
            raise _failed("Apple's runtime", "executed", self._last_words()) from cause

    def _last_words(self) -> str:
        """The last line of the process's stderr that names an error."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        telling = [line.strip() for line in lines if "rror" in line]
        return telling[-1] if telling else f"its process ended with {self._process.returncode}"


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def load_model(path: Path) -> CoreAIModel:
    """Load a .aimodel with Apple's runtime.

    Args:
        path: the folder NAME.aimodel.

    Raises:
        InputError: E426, the runtime refuses it.
        ToolError: E431, the runtime is not installed.
    """
    _check_runtime()
    if not path.is_dir():
        raise _failed(str(path), "loaded", "the folder does not exist")
    runtime = CoreAIRuntime(path)
    try:
        described = runtime.ask()
    except InputError as error:
        raise _failed(str(path), "loaded", error.why) from error
    return CoreAIModel(path, {name: _function(name, kinds, runtime) for name, kinds in described.items()})


def _check_runtime() -> None:
    if find_spec("coreai") is None:
        require_parts(("coreai-core",), "coreai-core")
        raise ToolError(
            "Apple's Core AI runtime is not installed.",
            where="coreai-core",
            fix=f"{install_command('coreai')} (Linux x86-64, or macOS 26)",
            code="E431",
        )


def _function(name: str, kinds: Mapping[str, Any], runtime: CoreAIRuntime) -> CoreAIFunction:
    features = {
        kind: tuple(Feature(each, getattr(torch, dtype), _varying(shape)) for each, dtype, shape in features_of_kind)
        for kind, features_of_kind in kinds.items()
    }
    return CoreAIFunction(name, features["inputs"], features["outputs"], features["states"], runtime)


def _varying(shape: tuple[int, ...]) -> tuple[int | None, ...]:
    """A shape of the runtime's, which says -1 of a dimension that varies."""
    return tuple(None if size < 0 else size for size in shape)


def _arrays(function: str, features: tuple[Feature, ...], given: Mapping[str, Tensor]) -> dict[str, Any]:
    """The given tensors as numpy arrays in the declared dtypes."""
    arrays = {}
    for feature in features:
        tensor = given.get(feature.name)
        if tensor is None or not feature.accepts(tuple(tensor.shape)):
            raise InputError(
                "The inputs do not match those of the function.",
                where=function,
                why=f"{feature.name!r}: {'absent' if tensor is None else list(tensor.shape)}",
                fix=f"give {feature.described()}",
                code="E422",
            )
        arrays[feature.name] = tensor.detach().to(feature.dtype).contiguous().numpy()
    return arrays


def _failed(where: str, verb: str, why: str) -> InputError:
    return InputError(
        f"The .aimodel could not be {verb}.",
        where=where,
        why=why.strip()[:600],
        fix="export again with --format aimodel",
        code="E426",
    )
