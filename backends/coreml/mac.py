"""Core ML itself, where there is a Mac: compile a package, run its functions, ask where every operator would run.

Everything goes through ``Tools``, so that the wiring can be tested elsewhere with a stand-in, whose figures mean
nothing. No part of this module has run on a Mac yet.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from edgec.bundle.entry_points import MethodInfo
from edgec.bundle.findings import Placement
from edgec.ir.static_methods import join_logits, write_states

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

_UNITS = {
    "MLCPUComputeDevice": "cpu",
    "MLGPUComputeDevice": "gpu",
    "MLNeuralEngineComputeDevice": "neural engine",
}
_STATIC_INPUTS = ("tokens", "start", "last")


class MacModel(Protocol):
    """A compiled function, as coremltools' ``CompiledMLModel``."""

    def predict(self, data: Arrays, state: Any = None) -> Arrays:
        """Execute it; values by name."""

    def make_state(self) -> Any:
        """States filled with zeros, for all functions of the package."""


class Tools(Protocol):
    """The tools that only a Mac has."""

    @property
    def machine(self) -> str:
        """The Mac and its system."""

    def compile(self, package: Path, destination: Path) -> Path:
        """Make NAME.mlmodelc of a package."""

    def load(self, compiled: Path, function: str | None) -> MacModel:
        """Load one function; None for the only one."""

    def operators(self, compiled: Path) -> Iterable[tuple[str, str, str]]:
        """Function, operator and the name of its preferred compute device, for every operator."""


def mac_tools(unit: str = "npu") -> Tools | None:
    """The tools of coremltools on a Mac, else None; ``unit``: what an app would run the package on."""
    return CoreMLTools(unit) if sys.platform == "darwin" else None


_COMPUTE_UNITS = {"npu": "CPU_AND_NE", "gpu": "CPU_AND_GPU"}


@dataclass(frozen=True)
class CoreMLTools:
    """coremltools on a Mac.

    Attributes:
        unit: ``npu`` or ``gpu``, beside the CPU.
    """

    unit: str = "npu"

    @property
    def _units(self) -> Any:
        import coremltools as ct

        return ct.ComputeUnit[_COMPUTE_UNITS[self.unit]]

    @property
    def machine(self) -> str:
        """The Mac and its system."""
        import platform

        return f"{platform.machine()}, macOS {platform.mac_ver()[0]}"

    def compile(self, package: Path, destination: Path) -> Path:
        """Make NAME.mlmodelc of a package."""
        from coremltools.models.utils import compile_model

        return Path(compile_model(str(package), str(destination)))

    def load(self, compiled: Path, function: str | None) -> MacModel:
        """Load one function as an app would."""
        from coremltools.models import CompiledMLModel

        model: MacModel = CompiledMLModel(str(compiled), compute_units=self._units, function_name=function)
        return model

    def operators(self, compiled: Path) -> Iterable[tuple[str, str, str]]:
        """Ask ``MLComputePlan``; constants have no device and are left out."""
        from coremltools.models.compute_plan import MLComputePlan

        plan = MLComputePlan.load_from_path(str(compiled), compute_units=self._units)
        program = plan.model_structure.program
        for name, function in program.functions.items() if program else ():
            for operation in function.block.operations:
                usage = plan.get_compute_device_usage_for_mlprogram_operation(operation)
                if usage is not None:
                    yield name, operation.operator_name, type(usage.preferred_compute_device).__name__


def placements(tools: Tools, compiled: Path) -> list[Placement]:
    """Count the operators of each kind that every compute unit takes, the most frequent first."""
    counted = Counter(
        (method, operator, _UNITS.get(unit, "unknown")) for method, operator, unit in tools.operators(compiled)
    )
    return [
        Placement.model_validate({"method": method, "operator": operator, "unit": unit, "count": count})
        for (method, operator, unit), count in sorted(counted.items(), key=lambda row: (-row[1], row[0]))
    ]


@dataclass
class MacMethods:
    """The static methods of a compiled package, executed by Core ML: ``static_run.Methods``.

    Attributes:
        models: by method.
        chunk: tokens that one call of ``prefill`` takes.
        inside: the states that Core ML holds, or None.
        held: states that the caller holds, by name.
    """

    models: Mapping[str, MacModel]
    chunk: int
    inside: Any = None
    held: dict[str, Tensor] = field(default_factory=dict)

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Execute a function; new rows that it returns are written here, as a caller would."""
        given = {name: value.numpy() for name, value in {**inputs, **self.held}.items()}
        arrays = self.models[method].predict(given, self.inside)
        outputs = {name: torch.from_numpy(np.asarray(value)) for name, value in arrays.items()}
        write_states(self.held, outputs, int(inputs["start"]))
        return join_logits(outputs)


def mac_methods(tools: Tools, compiled: Path, methods: Sequence[MethodInfo], states: Sequence[str]) -> MacMethods:
    """Load the functions of a compiled package.

    Args:
        tools: of a Mac.
        compiled: NAME.mlmodelc.
        methods: prefill and decode, as the manifest lists them.
        states: names of all states.
    """
    models = {method.name: tools.load(compiled, method.name if len(methods) > 1 else None) for method in methods}
    prefill = next(method for method in methods if method.name == "prefill")
    tokens = next(tensor for tensor in prefill.inputs if tensor.name == "tokens")
    held = {
        tensor.name: torch.zeros([int(size) for size in tensor.shape], dtype=torch.float16)
        for tensor in prefill.inputs
        if tensor.name not in _STATIC_INPUTS
    }
    inside = models["decode"].make_state() if set(states) - set(held) else None
    return MacMethods(models, int(tokens.shape[-1]), inside, held)
