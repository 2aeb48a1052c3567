"""A .aimodel executed by Apple's own Core AI runtime, whose Linux wheel computes on the CPU.

The runtime is asynchronous; its calls run in an event loop of their own thread, so that callers need none.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from edgec.backends.coreml.interpreter.features import Feature
from edgec.errors import InputError, ToolError
from edgec.runtime_py.native import captured_stderr

T = TypeVar("T")
State = dict[str, Tensor]


@dataclass(frozen=True)
class CoreAIFunction:
    """A loaded function; states are the caller's, as with ``edgec.backends.coreml.interpreter.Function``.

    Attributes:
        name: the entry point.
        inputs: what it takes.
        outputs: what it gives.
        states: what it reads and writes.
        loaded: the runtime's own object.
    """

    name: str
    inputs: tuple[Feature, ...]
    outputs: tuple[Feature, ...]
    states: tuple[Feature, ...]
    loaded: Any

    def fresh_state(self) -> State:
        """States as they are before the first call: zeros."""
        return {state.name: torch.zeros(state.fixed_shape, dtype=state.dtype) for state in self.states}

    def run(self, inputs: Mapping[str, Tensor], state: State | None = None) -> dict[str, Tensor]:
        """Execute once.

        Args:
            inputs: a tensor per input; numbers of another width are converted.
            state: a tensor per state; the entries are replaced by what the function leaves in them.

        Returns:
            A tensor per output.

        Raises:
            InputError: E422, names or shapes are not the function's; E426, the runtime fails.
        """
        held: State = {} if state is None else state
        given = {**_arrays(self.name, self.inputs, inputs)}
        states = _arrays(self.name, self.states, held)
        try:
            results = _waited(_called(self.loaded, given, states))
        except Exception as cause:  # the runtime's errors have no class of their own
            raise _failed(f"function {self.name!r}", "executed", cause) from cause
        held.update({name: _tensor(array) for name, array in states.items()})
        return {name: _tensor(array) for name, array in results.items()}


@dataclass(frozen=True)
class CoreAIModel:
    """A loaded .aimodel; its functions share weights."""

    path: Path
    functions: Mapping[str, CoreAIFunction]


def load_model(path: Path) -> CoreAIModel:
    """Load a .aimodel with Apple's runtime.

    Args:
        path: the folder NAME.aimodel.

    Raises:
        InputError: E426, the runtime refuses it.
        ToolError: E431, the runtime is not installed.
    """
    assets = _assets()
    if not path.is_dir():
        raise _failed(str(path), "loaded", FileNotFoundError("there is no such folder"))
    with captured_stderr():  # the runtime announces every function that it loads
        try:
            functions = _waited(_loaded(assets, path))
        except Exception as cause:
            raise _failed(str(path), "loaded", cause) from cause
    return CoreAIModel(path, functions)


async def _loaded(assets: Any, path: Path) -> dict[str, CoreAIFunction]:
    """Linux compiles the model into a folder of its own, which is not needed once the functions are loaded."""
    async with assets.load(path).executable() as model:
        return {name: _function(name, model.load_function(name)) for name in model.function_names}


def _assets() -> Any:
    try:
        from coreai.authoring import AIModelAsset
    except ImportError as cause:
        raise ToolError(
            "Apple's Core AI runtime is not installed.",
            where="coreai-core",
            why=str(cause),
            fix='pip install "edgec[coreai]" (Linux x86-64 or macOS)',
            code="E431",
        ) from cause
    return AIModelAsset


def _function(name: str, loaded: Any) -> CoreAIFunction:
    desc = loaded.desc
    inputs = tuple(_feature(each, desc.input_descriptor(each)) for each in desc.input_names)
    outputs = tuple(_feature(each, desc.output_descriptor(each)) for each in desc.output_names)
    states = tuple(_feature(each, desc.state_descriptor(each)) for each in desc.state_names)
    return CoreAIFunction(name, inputs, outputs, states, loaded)


def _feature(name: str, descriptor: Any) -> Feature:
    return Feature(name, getattr(torch, descriptor.dtype), tuple(descriptor.shape))


def _arrays(function: str, features: tuple[Feature, ...], given: Mapping[str, Tensor]) -> dict[str, Any]:
    """The runtime's arrays in the declared dtypes."""
    from coreai.runtime import NDArray

    found = {}
    for feature in features:
        tensor = given.get(feature.name)
        if tensor is None or not feature.accepts(tuple(tensor.shape)):
            raise InputError(
                "The inputs are not those of the function.",
                where=function,
                why=f"{feature.name!r}: {'absent' if tensor is None else list(tensor.shape)}",
                fix=f"give {feature.described()}",
                code="E422",
            )
        found[feature.name] = NDArray(tensor.to(feature.dtype).contiguous().numpy())
    return found


def _tensor(array: Any) -> Tensor:
    import numpy as np

    return torch.from_numpy(np.array(array.numpy()))


async def _called(function: Any, inputs: Mapping[str, Any], state: Mapping[str, Any]) -> Mapping[str, Any]:
    results: Mapping[str, Any] = await function(dict(inputs), state=dict(state))
    return results


@lru_cache(maxsize=1)
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="coreai", daemon=True).start()
    return loop


def _waited(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


def _failed(where: str, verb: str, cause: Exception) -> InputError:
    return InputError(
        f"The .aimodel could not be {verb}.",
        where=where,
        why=str(cause).strip()[:600] or type(cause).__name__,
        fix="export again with --format aimodel",
        code="E426",
    )
