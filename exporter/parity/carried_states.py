"""States that a module takes as inputs and gives back as outputs: real ones are those of the call before, not 0.

    x1, 0 -> y1, s1      x2, s1 -> y2, s2      x3, s2 -> ...

An input is taken for one where its example is 0 everywhere and an output has its shape and dtype. Several of one shape
follow each other in the same order on both sides, as the two states of an LSTM do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

StatePlaces = Mapping[int, int]
"""The place of the output that each state input has the value of, by the input's place."""


def carried_states(examples: Sequence[Tensor], outputs: Sequence[Tensor]) -> StatePlaces:
    """The states among a module's inputs; none where nothing else varies, or where outputs do not tell them apart."""
    silent = [place for place, value in enumerate(examples) if _is_silent(value)]
    found: dict[int, int] = {}
    for kind in {_kind(examples[place]) for place in silent}:
        inputs = [place for place in silent if _kind(examples[place]) == kind]
        given = [place for place, value in enumerate(outputs) if _kind(value) == kind]
        if len(inputs) == len(given) and len(silent) < len(examples):
            found |= dict(zip(inputs, given, strict=True))
    return found


def with_states(
    inputs: Sequence[Tensor], examples: Sequence[Tensor], states: StatePlaces, before: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Inputs whose states are outputs of the call before, where they still are those of the example."""
    return tuple(
        before[states[place]].clone() if place in states and value is examples[place] else value
        for place, value in enumerate(inputs)
    )


def _is_silent(value: Tensor) -> bool:
    return value.is_floating_point() and value.numel() > 1 and not bool(value.any())


def _kind(value: Tensor) -> tuple[object, ...]:
    return (value.dtype, *value.shape)
