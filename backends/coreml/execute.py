"""A Core ML package's static methods, executed here by edgec's own interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from edgec.backends.coreml.interpreter import Function, Package, load_package
from edgec.exporter.parity.static_run import PREFILL, joined_logits, write_new_rows


@dataclass
class PackageMethods:
    """Functions of one package over one set of states.

    Attributes:
        functions: by method.
        states: what lies in them now, by name; filled at the first call.
    """

    functions: Mapping[str, Function]
    states: dict[str, Tensor] = field(default_factory=dict)

    @property
    def chunk(self) -> int:
        """Tokens that one call of ``prefill`` takes."""
        return next(f.fixed_shape[1] for f in self.functions[PREFILL].inputs if f.name == "tokens")

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Execute a function; new rows that it returns are written here, as a caller would."""
        function = self.functions[method]
        if not self.states:
            self.states = _empty(function)
        held = {feature.name for feature in function.inputs} & set(self.states)
        given = {**inputs, **{name: self.states[name] for name in held}}
        inside = {name: value for name, value in self.states.items() if name not in held}
        outputs = function.run(given, inside)
        self.states.update(inside)
        write_new_rows(self.states, outputs, int(inputs["start"]))
        return joined_logits(outputs)


def _empty(function: Function) -> dict[str, Tensor]:
    """Empty states: those inside the function, and those that it takes as inputs."""
    import torch

    outside = [each for each in function.inputs if each.name not in ("tokens", "start", "last")]
    return {**function.fresh_state(), **{f.name: torch.zeros(f.fixed_shape, dtype=torch.float16) for f in outside}}


def package_methods(path: Path) -> PackageMethods:
    """Load a package of several functions.

    Raises:
        InputError: E420 an operator that the interpreter does not know, E421 a damaged package.
    """
    package: Package = load_package(path)
    return PackageMethods(package.functions)
