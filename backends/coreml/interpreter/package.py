"""A saved .mlpackage, ready to be executed by torch: ``load_package(path).functions["decode"].run(inputs, state)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.backends.coreml.interpreter.constants import Constants
from edgec.backends.coreml.interpreter.features import feature, input_features
from edgec.backends.coreml.interpreter.function import STATE_OPERATORS, MilFunction
from edgec.backends.coreml.interpreter.graph import Constant, Expression, Graph, read_graph
from edgec.backends.coreml.interpreter.operators.compression import DECOMPRESSIONS
from edgec.backends.coreml.interpreter.operators.table import (
    ACCUMULATIONS,
    Accumulate,
    Operator,
    operator_table,
)
from edgec.backends.coreml.interpreter.proto import WEIGHT_FOLDER, read_spec
from edgec.errors import InputError


@dataclass(frozen=True)
class Package:
    """A loaded .mlpackage with its functions.

    Attributes:
        path: the folder.
        specification: Core ML's version of the format (9: iOS 18).
        functions: by name; they share constants.
        default_function: the one an app gets without asking.
    """

    path: Path
    specification: int
    functions: Mapping[str, MilFunction]
    default_function: str
    constants: Constants

    def hold_files(self) -> None:
        """Map the weight files now, so that the folder may be removed."""
        self.constants.open_files()


def load_package(path: Path, accumulate: Accumulate = "float16") -> Package:
    """Read a package; weights are read at their first use.

    Args:
        path: the folder NAME.mlpackage.
        accumulate: how sums are rounded; see ``operators.table.operator_table``.

    Raises:
        InputError: E420, it has operators that are not known here; E421, it cannot be read.
        ToolError: E430, coremltools is not installed.
    """
    if accumulate not in ACCUMULATIONS:
        raise InputError(f"Unknown accumulation {accumulate!r}.", fix=f"one of {', '.join(ACCUMULATIONS)}", code="E422")
    spec = read_spec(path)
    operators, constants = operator_table(accumulate), Constants(path / WEIGHT_FOLDER)
    functions = {}
    for name, message in spec.mlProgram.functions.items():
        graph = read_graph(message)
        _check_operators(graph, operators, name)
        # The description's inputs by name; a package of one function describes it at the top.
        own = next((entry for entry in spec.description.functions if entry.name == name), spec.description)
        inputs = {entry.name: entry for entry in own.input}
        functions[name] = _function(name, graph, constants, operators, accumulate, inputs)
    default = spec.description.defaultFunctionName or next(iter(functions))
    return Package(path, spec.specificationVersion, functions, default, constants)


def _function(
    name: str,
    graph: Graph,
    constants: Constants,
    operators: Mapping[str, Operator],
    accumulate: Accumulate,
    described: Mapping[str, Any],
) -> MilFunction:
    outputs = tuple(feature(output, graph.types[output]) for output in graph.outputs)
    states = tuple(feature(state, kind) for state, kind in graph.states.items())
    inputs = input_features(graph, described)
    wide = operator_table("float32")
    return MilFunction(name, inputs, outputs, states, graph, constants, operators, accumulate, wide)


def _check_operators(graph: Graph, operators: Mapping[str, Operator], function: str) -> None:
    unknown = {
        step.operator: step.name
        for step in reversed(graph.steps)
        if step.operator not in operators and step.operator not in STATE_OPERATORS
    }
    for step in graph.steps:
        for value in step.inputs.values():
            for part in value if isinstance(value, tuple) else (value,):
                unknown.update(_unknown_forms(part))
    if unknown:
        operator, place = next(iter(unknown.items()))
        raise InputError(
            f"edgec's interpreter does not know the operator {operator}.",
            where=f"function {function!r}, operator {place!r}",
            why=f"unknown here: {', '.join(sorted(unknown))}",
            fix="check the package on a Mac, or leave the operator out of the model",
            code="E420",
        )


def _unknown_forms(value: str | Constant) -> dict[str, str]:
    if not isinstance(value, Expression):
        return {}
    own = {} if value.operator in DECOMPRESSIONS else {value.operator: value.place}
    return {**own, **{k: v for _, part in value.inputs for k, v in _unknown_forms(part).items()}}
