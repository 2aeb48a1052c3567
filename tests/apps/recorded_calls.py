"""The calls of a bundle's functions of fixed shapes, kept for a stand-in of Core ML to replay."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from edgec.backends.coreml.execute import PackageMethods
from edgec.bundle.entry_points import MethodInfo, TensorInfo
from edgec.ir.static_methods import join_logits
from tests.apps.vision_app_answers import in_base64

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Called:
    """A call of a function.

    Attributes:
        function: its name.
        inputs: by their names.
        outputs: likewise; what a call gave that an app made is not known.
        state: an app's call was given the model's state.
    """

    function: str
    inputs: Arrays
    outputs: Arrays
    state: bool = True

    def answer(self) -> dict[str, Any]:
        """The outputs as an app's stand-in reads them."""
        return {"function": self.function, "outputs": {name: written(value) for name, value in self.outputs.items()}}


def written(values: NDArray[Any]) -> dict[str, Any]:
    """An array of float32 as JSON."""
    return {"shape": list(values.shape), "bytes": in_base64(np.ascontiguousarray(values, np.float32))}


def read(call: Mapping[str, Any]) -> Called:
    """A call that an app made, as it wrote it down."""
    arrays = {name: _array(value) for name, value in call["inputs"].items()}
    return Called(call["function"], arrays, {}, call["state"])


def _array(value: Mapping[str, Any]) -> NDArray[Any]:
    return np.frombuffer(b64decode(value["bytes"]), value["type"]).reshape(value["shape"])


class KeptCalls:
    """The calls of functions.

    Attributes:
        methods: the functions by their names.
        made: the calls since the beginning, in order.
        failing: the function whose calls raise ``RuntimeError`` once they are kept.
    """

    def __init__(self, methods: Sequence[MethodInfo]) -> None:
        """Keep none yet."""
        self.methods = {method.name: method for method in methods}
        self.made: list[Called] = []
        self.failing = ""

    def keep(self, function: str, inputs: Arrays, outputs: Arrays) -> None:
        """Keep a call."""
        method = self.methods[function]
        assert {tensor.name for tensor in method.inputs} == set(inputs)
        made = {each.name: np.array(outputs[each.name]).reshape(sizes(each)) for each in method.outputs}
        self.made.append(Called(function, {name: np.array(value) for name, value in inputs.items()}, made))
        if function == self.failing:
            raise RuntimeError(function)


def sizes(tensor: TensorInfo) -> list[int]:
    """The fixed shape of an input or output."""
    return [int(size) for size in tensor.shape]


class KeptMethods:
    """Static methods whose calls are kept."""

    def __init__(self, own: PackageMethods, calls: KeptCalls) -> None:
        """Keep the calls of ``own``."""
        self._own, self._calls, self.chunk = own, calls, own.chunk

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Execute a method."""
        outputs = self._own.outputs(method, inputs)
        given, made = ({name: value.numpy() for name, value in each.items()} for each in (inputs, outputs))
        self._calls.keep(method, given, made)
        return join_logits(outputs)


class KeptFunction:
    """A function beside the static methods whose calls are kept."""

    def __init__(self, own: Any, calls: KeptCalls, name: str) -> None:
        """Keep the calls of ``own``."""
        self._own, self._calls, self._method = own, calls, calls.methods[name]

    def run(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Execute the function."""
        made: list[NDArray[Any]] = self._own.run(inputs)
        given, named = (
            {tensor.name: value for tensor, value in zip(tensors, values, strict=True)}
            for tensors, values in ((self._method.inputs, inputs), (self._method.outputs, made))
        )
        self._calls.keep(self._method.name, given, named)
        return made

    lend = run
