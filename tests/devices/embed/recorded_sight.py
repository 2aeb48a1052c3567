"""What Python's runtime calls the functions of a bundle of fixed shapes with, for a stand-in of Core ML to replay."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

import edgec
from edgec.backends.coreml.execute import PackageMethods
from edgec.bundle.entry_points import MethodInfo, TensorInfo
from edgec.bundle.golden import OutputVector, probe_values
from edgec.ir.static_methods import join_logits
from edgec.runtime_py.engines.static_decoder import StaticDecoder
from tests.devices.embed.seeing_answers import in_base64

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


class Recording:
    """A bundle in Python's runtime, which keeps every call of its functions.

    Attributes:
        model: the bundle.
        calls: since the beginning, in order.
    """

    def __init__(self, bundle: Path) -> None:
        """Load the bundle."""
        self.model = edgec.load(bundle)
        self.calls: list[Called] = []
        session: Any = self.model.session
        self._session = session
        self._methods = {method.name: method for method in self.model.bundle.manifest.methods}
        decoder = self._session.executor
        assert isinstance(decoder, StaticDecoder)
        assert isinstance(decoder._methods, PackageMethods)
        decoder._methods = _KeptMethods(decoder._methods, self)
        # The image encoder is opened with the first image.
        session.see(probe_values(self._tile, "float32"))
        session._see = _KeptSee(session._see, self, self._methods["see"])

    @property
    def _tile(self) -> list[int]:
        return _sizes(self._methods["see"].inputs[0])

    @property
    def chunk(self) -> int:
        """Tokens of a call."""
        return int(self._methods["prefill"].inputs[0].shape[1])

    def keep(self, function: str, inputs: Arrays, outputs: Arrays) -> None:
        """Keep a call."""
        method = self._methods[function]
        assert {tensor.name for tensor in method.inputs} == set(inputs)
        made = {each.name: np.array(outputs[each.name]).reshape(_sizes(each)) for each in method.outputs}
        self.calls.append(Called(function, {name: np.array(value) for name, value in inputs.items()}, made))

    def ask(self, tokens: Sequence[int], pixels: NDArray[np.float32] | None, most: int, start: int = 0) -> list[int]:
        """The greedy tokens after a prompt, of which the states hold ``start``."""
        session, said = self._session, list[int]()
        session.look(tokens, pixels)
        session.cache.tokens[:] = tokens[:start]
        logits = session.prefill(tokens[start:], start)
        while True:
            said.append(int(logits.argmax()))
            if len(said) == most:
                return said
            logits = session.prefill(said[-1:], len(tokens) + len(said) - 1)

    def replay(self, vector: OutputVector) -> None:
        """Feed a golden vector as an app does at its first start."""
        session, tokens = self._session, list(vector.prompt_ids)
        session.look(tokens, probe_values(self._tile, "float32"))
        session.prefill(tokens, 0)
        for position, token in enumerate(vector.continuation_ids[:-1], len(tokens)):
            session.prefill([token], position)


def _sizes(tensor: TensorInfo) -> list[int]:
    return [int(size) for size in tensor.shape]


class _KeptMethods:
    """Static methods whose calls are kept."""

    def __init__(self, own: PackageMethods, recording: Recording) -> None:
        self._own, self._recording, self.chunk = own, recording, own.chunk

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Execute a method."""
        outputs = self._own.outputs(method, inputs)
        given, made = ({name: value.numpy() for name, value in each.items()} for each in (inputs, outputs))
        self._recording.keep(method, given, made)
        return join_logits(outputs)


class _KeptSee:
    """An image encoder whose calls are kept."""

    def __init__(self, own: Any, recording: Recording, method: MethodInfo) -> None:
        self._own, self._recording, self._method = own, recording, method

    def run(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Read a tile."""
        made: list[NDArray[Any]] = self._own.run(inputs)
        names = self._method.inputs[0].name, self._method.outputs[0].name
        self._recording.keep(self._method.name, {names[0]: inputs[0]}, {names[1]: made[0]})
        return made
