"""One function of a package: its interface, and its execution step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from edgec.backends.coreml.interpreter.constants import Constants, Value
from edgec.backends.coreml.interpreter.features import Feature
from edgec.backends.coreml.interpreter.graph import Argument, Graph, MilStep, ValueType
from edgec.backends.coreml.interpreter.operators.table import Accumulate, Operator
from edgec.errors import EdgecError, InputError

STATE_OPERATORS = frozenset({"read_state", "write_state", "coreml_update_state"})
MilState = dict[str, Tensor]


@dataclass(frozen=True)
class MilFunction:
    """A loaded function. It keeps nothing between calls: states are the caller's.

    Attributes:
        name: as the app calls it.
        inputs: what it takes.
        outputs: what it gives; shapes as declared.
        states: what it reads and writes.
        operators: by MIL's name, as ``accumulate`` says; ``wide``: the same where values are float32.
    """

    name: str
    inputs: tuple[Feature, ...]
    outputs: tuple[Feature, ...]
    states: tuple[Feature, ...]
    graph: Graph
    constants: Constants
    operators: Mapping[str, Operator]
    accumulate: Accumulate
    wide: Mapping[str, Operator]

    def fresh_state(self) -> MilState:
        """States as they are before the first call: zeros of the declared shapes."""
        return {state.name: torch.zeros(state.fixed_shape, dtype=self._held(state.dtype)) for state in self.states}

    def run(self, inputs: Mapping[str, Tensor], state: MilState | None = None) -> dict[str, Tensor]:
        """Execute the function once.

        Args:
            inputs: a tensor per input; integers and floats of other widths are converted as Core ML does.
            state: a tensor per state; the entries are replaced by what the function writes. None where it has none.

        Returns:
            A tensor per output, in the declared dtypes.

        Raises:
            InputError: E422, names or shapes are not the function's; E423, an operator cannot be executed.
        """
        values = _Values(self, self._taken(inputs), self._states({} if state is None else state))
        with torch.no_grad():
            for step, finished in zip(self.graph.steps, self._finished(), strict=True):
                values.execute(step)
                values.forget(finished)
            return {name: values.get(source) for name, source in self.graph.outputs.items()}

    def _held(self, dtype: torch.dtype) -> torch.dtype:
        return torch.float32 if self.accumulate == "unrounded" and dtype == torch.float16 else dtype

    def _taken(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        wanted = {feature.name: feature for feature in self.inputs}
        if set(inputs) != set(wanted):
            raise _wrong_input(self.name, f"given: {', '.join(sorted(inputs))}", f"give: {', '.join(sorted(wanted))}")
        for name, tensor in inputs.items():
            if not wanted[name].accepts(tuple(tensor.shape)):
                why = f"{name!r} has the shape {list(tensor.shape)}"
                raise _wrong_input(self.name, why, f"give {wanted[name].described()}")
        return {name: tensor.to(self._held(wanted[name].dtype)) for name, tensor in inputs.items()}

    def _states(self, state: MilState) -> MilState:
        for feature in self.states:
            given = state.get(feature.name)
            if given is None or tuple(given.shape) != feature.fixed_shape:
                why = f"state {feature.name!r}: {'absent' if given is None else list(given.shape)}"
                raise _wrong_input(self.name, why, "begin with Function.fresh_state() and pass it on from call to call")
        return state

    def _finished(self) -> Sequence[Sequence[str]]:
        """The values that no later step reads, for each step."""
        kept = {source for source in self.graph.outputs.values() if isinstance(source, str)}
        last = {name: index for index, step in enumerate(self.graph.steps) for name in step.reads()}
        finished: list[list[str]] = [[] for _ in self.graph.steps]
        for name, index in last.items():
            if name not in kept and name not in self.graph.states:
                finished[index].append(name)
        return finished


class _Values:
    """The values of one call by name."""

    def __init__(self, function: MilFunction, inputs: dict[str, Tensor], state: MilState) -> None:
        self._function, self._values, self._state = function, dict[str, Any](inputs), state

    def get(self, argument: Argument) -> Any:
        if isinstance(argument, tuple):
            return [self.get(part) for part in argument]
        if isinstance(argument, str):
            return self._values[argument]
        return self._function.constants.value(argument)

    def forget(self, names: Sequence[str]) -> None:
        for name in names:
            self._values.pop(name, None)

    def execute(self, step: MilStep) -> None:
        if step.operator in STATE_OPERATORS:
            self._execute_state(step)
            return
        inputs = {name: self.get(argument) for name, argument in step.inputs.items()}
        operator = self._operator(step, inputs)
        given = {name: _widened(value) for name, value in inputs.items()} if operator.computes else inputs
        try:
            result = operator.run(**given)
            self._keep(step, result if isinstance(result, (tuple, list)) else (result,))
        except EdgecError:
            raise
        except Exception as cause:
            raise failed(step, self._function.name, inputs, cause) from cause

    def _operator(self, step: MilStep, inputs: Mapping[str, Any]) -> Operator:
        """An operator of this program; one that gets float32 values adds in float32, too."""
        tensors = [value for value in inputs.values() if isinstance(value, Tensor) and value.dim()]
        wide = any(value.dtype is torch.float32 for value in tensors)
        return (self._function.wide if wide else self._function.operators)[step.operator]

    def _keep(self, step: MilStep, results: Sequence[Tensor]) -> None:
        for (name, kind), result in zip(step.outputs, results, strict=True):
            self._values[name] = self._rounded(result, kind)

    def _rounded(self, result: Tensor, kind: ValueType) -> Tensor:
        return result if kind.element is None else result.to(self._function._held(kind.element.held))

    def _execute_state(self, step: MilStep) -> None:
        """``coreml_update_state`` is write and read in one; saved packages have the two apart."""
        name = str(step.inputs.get("state", step.inputs.get("input")))
        written = step.inputs.get("value", step.inputs.get("data"))
        kind = self._function.graph.states[name]
        if written is not None:
            self._state[name] = self._rounded(self.get(written), kind)
        for output, _ in step.outputs:
            self._values[output] = self._rounded(self._state[name], kind)


def _widened(value: Value | list[Any]) -> Any:
    """float16 as float32: each operator computes in float32 and rounds its result."""
    if isinstance(value, list):
        return [_widened(part) for part in value]
    return value.float() if isinstance(value, Tensor) and value.dtype == torch.float16 else value


def _wrong_input(function: str, why: str, fix: str) -> InputError:
    return InputError("The inputs do not match those of the function.", where=function, why=why, fix=fix, code="E422")


def failed(step: MilStep, function: str, inputs: Mapping[str, Any], cause: Exception) -> InputError:
    """The error for an operator that fails (E423), with its place and its inputs."""
    shapes = ", ".join(f"{n} {list(v.shape)}" for n, v in inputs.items() if isinstance(v, Tensor) and v.dim())
    return InputError(
        f"The operator {step.operator} cannot be executed.",
        where=f"function {function!r}, operator {step.name!r}",
        why=f"{cause} (given {shapes})",
        fix="the package is damaged, or edgec's interpreter has a fault: report it with the package",
        code="E423",
    )
