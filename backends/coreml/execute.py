"""A Core ML package's static methods, executed here by edgec's own interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from edgec.backends.coreml.interpreter import MilFunction, Package, load_package
from edgec.ir.memory_inputs import is_memory
from edgec.ir.row_inputs import ROW_INPUTS
from edgec.ir.static_methods import PREFILL, join_logits, write_states
from edgec.passes.static.parts.cut_model import HIDDEN, NEXT

_GIVEN = ("tokens", "start", "last", HIDDEN, *ROW_INPUTS)

LoadPackage = Callable[[Path], Package]
"""Opens a package: ``load_package``, or on a Mac what ``on_mac`` makes."""


@dataclass
class PackageMethods:
    """Functions of one package over one set of states.

    Attributes:
        functions: by method.
        states: their current values, by name; filled at the first call.
    """

    functions: Mapping[str, MilFunction]
    states: dict[str, Tensor] = field(default_factory=dict)

    @property
    def chunk(self) -> int:
        """Tokens that one call of ``prefill`` takes."""
        return next(f.fixed_shape[1] for f in self.functions[PREFILL].inputs if f.name == "tokens")

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Execute a function; new rows that it returns are written here, as a caller would."""
        return join_logits(self.outputs(method, inputs))

    def outputs(self, method: str, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Execute a function and return all outputs by name; inputs that it does not take are left out."""
        function = self.functions[method]
        if not self.states:
            # Empty states: those inside the function, and those that it takes as inputs.
            outside = [each for each in function.inputs if each.name not in _GIVEN and not is_memory(each.name)]
            self.states = {
                **function.fresh_state(),
                **{f.name: torch.zeros(f.fixed_shape, dtype=torch.float16) for f in outside},
            }
        names = {feature.name for feature in function.inputs}
        given = {name: value for name, value in {**self.states, **inputs}.items() if name in names}
        inside = {name: value for name, value in self.states.items() if name not in names}
        outputs = function.run(given, inside)
        self.states.update(inside)
        write_states(self.states, outputs, int(inputs["start"]))
        return outputs


@dataclass
class PartedMethods:
    """A model in several packages, each of which takes what the one before it gives."""

    parts: Sequence[PackageMethods]

    @property
    def chunk(self) -> int:
        """Tokens that one call of ``prefill`` takes."""
        return self.parts[0].chunk

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Execute a method's parts one after the other."""
        given = dict(inputs)
        for part in self.parts:
            outputs = part.outputs(method, given)
            given |= {HIDDEN: outputs[NEXT]} if NEXT in outputs else {}
        return join_logits(outputs)


def package_methods(path: Path, load: LoadPackage = load_package) -> PackageMethods:
    """Load a package of several functions.

    Args:
        path: the package.
        load: what makes its functions; edgec's interpreter unless another is given.

    Raises:
        InputError: E420 an operator that the interpreter does not know, E421 a damaged package.
    """
    return PackageMethods(load(path).functions)
