"""A package executed by Core ML itself on a Mac: its functions in the place of those of edgec's interpreter.

Nothing of it has run on a Mac yet: the tests call it with a stand-in for Core ML.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

import numpy as np
import torch
from torch import Tensor

from edgec.backends.coreml.execute import LoadPackage
from edgec.backends.coreml.interpreter import Package, load_package
from edgec.backends.coreml.interpreter.function import MilFunction, MilState
from edgec.backends.coreml.mac import MacModel, Tools
from edgec.errors import EdgecError, ToolError

CoreMLAnswer = TypeVar("CoreMLAnswer")
HELD: Final = "MLState"
"""Among a function's states the one in which Core ML holds all of them."""


@dataclass(frozen=True)
class MacFunction(MilFunction):
    """A function of a compiled package; what it takes and gives is read from the package.

    Attributes:
        model: Core ML's.
        folder: where the compiled package lies as long as a function of it is in use.
    """

    model: MacModel
    folder: TemporaryDirectory[str]

    def fresh_state(self) -> MilState:
        """States as they are before the first call; their values are Core ML's, so that only shapes stand here."""
        if not self.states:
            return {}
        shapes = {state.name: torch.empty(state.fixed_shape, device="meta") for state in self.states}
        return {**shapes, HELD: self.model.make_state()}

    def run(self, inputs: Mapping[str, Tensor], state: MilState | None = None) -> dict[str, Tensor]:
        """Execute the function once; Core ML writes its states.

        Raises:
            InputError: E422, names or shapes are not the function's.
            ToolError: E920, Core ML does not execute it.
        """
        given = {name: value.contiguous().numpy() for name, value in self._taken(inputs).items()}
        arrays = _asked(self.name, lambda: self.model.predict(given, (state or {}).get(HELD)))
        return {each.name: torch.from_numpy(np.array(arrays[each.name])).to(each.dtype) for each in self.outputs}


def on_mac(tools: Tools) -> LoadPackage:
    """What loads a package as ``load_package`` does, to be executed by Core ML.

    Args:
        tools: of a Mac.
    """

    def load(path: Path) -> Package:
        package = load_package(path)
        folder = TemporaryDirectory(prefix="edgec-coreml-")
        compiled = _asked(path.name, lambda: tools.compile(path, Path(folder.name, "model.mlmodelc")))
        several = len(package.functions) > 1

        def compiled_function(name: str, function: MilFunction) -> MacFunction:
            model = _asked(path.name, lambda: tools.load(compiled, name if several else None))
            return MacFunction(**vars(function), model=model, folder=folder)

        functions = {name: compiled_function(name, function) for name, function in package.functions.items()}
        return replace(package, functions=functions)

    return load


def _asked(where: str, call: Callable[[], CoreMLAnswer]) -> CoreMLAnswer:
    """Core ML's answer; whatever coremltools and its frameworks raise is E920: they share no base class of errors."""
    try:
        return call()
    except EdgecError:
        raise
    except Exception as cause:
        raise ToolError(
            "Core ML does not execute this package.",
            where,
            f"{type(cause).__name__}: {cause}"[:400],
            "look at what Xcode says of the package; on Linux edgec's own interpreter executes the bundle",
            "E920",
        ) from cause
