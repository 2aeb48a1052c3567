"""The inputs that a module is judged on: those of ``--inputs``, else made ones; and what its own code makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from edgec.errors import InputError
from edgec.exporter.parity.carried_states import carried_states, with_states
from edgec.exporter.parity.made_inputs import Stress, louder, made_inputs
from edgec.exporter.parity.norm_distances import norm_distances
from edgec.exporter.sources.modules.factory import Example
from edgec.exporter.sources.modules.given_inputs import GivenInputs, bind_inputs
from edgec.exporter.sources.modules.input_names import names_of_inputs
from edgec.exporter.sources.modules.returned import returned_of
from edgec.runtime_py.functions.prepared_inputs import spread

_STRESSED, _LOOKED_AT = 2, 16
"""Of the given inputs, those that are tried four times as large, too, and those that batch norms are asked about."""


@dataclass(frozen=True)
class JudgedInputs:
    """What a module is judged on.

    Attributes:
        calls: inputs whose outputs are compared.
        outputs: of the module's own code, for each call.
        stress: inputs on which float16 must give numbers.
        note: which inputs these are, for the ladder.
        given: they are the user's own.
    """

    calls: tuple[Example, ...]
    outputs: tuple[tuple[Tensor, ...], ...]
    stress: tuple[Stress, ...]
    note: str
    given: bool = False


def judged_inputs(
    model: nn.Module, examples: Example, name: str, names: Sequence[str], given: GivenInputs | None
) -> JudgedInputs:
    """Bind the given inputs, or make some.

    Args:
        model: in evaluation mode.
        examples: its example inputs, which its own code takes.
        name: of the model, for errors.
        names: of its inputs; empty for those of ``forward``.
        given: what was read of ``--inputs``.

    Raises:
        InputError: E832 to E838, the given inputs do not fit the module.
    """
    first = _run(model, examples, name)
    runs = _Runs(model, name, [value.shape for value in first])
    if given is None:
        made = made_inputs(model, examples, runs.outputs)
        return JudgedInputs(made.calls, tuple(map(tuple, made.outputs)), made.stress, made.note)
    rows, count = bind_inputs(given, list(names) or names_of_inputs(model, examples), examples)
    calls, outputs = _followed(runs, rows, examples, first, given)
    all_of = f"{count}" if count == len(calls) else f"{len(calls)} of {count}"
    stress = louder(spread(calls, _STRESSED), runs.outputs)
    note = f"judged on {all_of} given inputs ({given.place.name}{_like_training(model, calls)})"
    return JudgedInputs(calls, outputs, stress, note, given=True)


def _like_training(model: nn.Module, calls: Sequence[Example]) -> str:
    """How far given inputs are from what the network's batch norms saw in training; empty where none tells."""
    found = norm_distances(model, spread(calls, _LOOKED_AT))
    if found is None:
        return ""
    said = "typical of training" if found.typical else "not typical of training: check the app's preprocessing"
    return f"; {said}, {found.line}"


def _followed(
    runs: _Runs, rows: Sequence[Example], examples: Example, first: Sequence[Tensor], given: GivenInputs
) -> tuple[tuple[Example, ...], tuple[tuple[Tensor, ...], ...]]:
    """The given examples and their outputs; states that were not given are those of the call before."""
    states, before, calls, outputs = carried_states(examples, first), tuple(first), [], []
    for index, row in enumerate(rows):
        call = with_states(row, examples, states, before)
        before = _finite_outputs(runs, call, index, given)
        calls.append(call)
        outputs.append(before)
    return tuple(calls), tuple(outputs)


@dataclass(frozen=True)
class _Runs:
    """The module's own code on several inputs; its outputs must have the shapes of those of its examples."""

    model: nn.Module
    name: str
    shapes: Sequence[torch.Size]

    def outputs(self, inputs: Example) -> tuple[Tensor, ...] | None:
        try:
            found = _run(self.model, inputs, self.name)
        except Exception:  # Model code of any family fails in its own way.
            return None
        return found if [value.shape for value in found] == list(self.shapes) else None


def _run(model: nn.Module, inputs: Example, name: str) -> tuple[Tensor, ...]:
    """The outputs for copies of inputs; random numbers are the same in every call."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        outputs = returned_of(model(*(value.clone() for value in inputs)), name).tensors
    return tuple(value.clone() for value in outputs)


def _finite_outputs(runs: _Runs, inputs: Example, index: int, given: GivenInputs) -> tuple[Tensor, ...]:
    """The outputs for a given example.

    Raises:
        InputError: E836, the module fails on it or gives NaN.
    """
    found = runs.outputs(inputs)
    if found is not None and not any(bool(value.isnan().any()) for value in found):
        return found
    raise InputError(
        what=f"--inputs: the module {'fails on' if found is None else 'gives NaN for'} example {index + 1}.",
        where=str(given.place),
        why="in its own code, in float32, before anything is compiled: its values are outside what the module takes",
        fix="save what the app passes to the module, after its preprocessing, and run the module on it once",
        code="E836",
    )
