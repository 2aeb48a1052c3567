"""Inputs that a module is judged on where nobody gives any: seeded, of several kinds, in the shapes of its examples.

    the factory's example; 5 of white noise, 5 of smooth noise, 5 of the example's own values in another order
    of sounds and pictures: 3 of each, and 6 voices or pictures (``made_signals.py``)
    times 4; plus 5, 20 and 100 spreads: asked only whether float16 still gives numbers

White noise hides what pictures and sound show: its mean is 0, so that a sum over a whole image stays small, and a
network that listens for speech says no to all of it. Smooth noise keeps a value over eight neighbours. Mean and spread
are those of the example, or, where a batch norm tells, those of what the network saw in training
(``typical_values.py``). Whole numbers are put in another order, masks stay, and states follow from call to call
(``carried_states.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from edgec.exporter.parity.carried_states import carried_states, with_states
from edgec.exporter.parity.made_signals import audio_or_vision, is_picture, is_sound, signal
from edgec.exporter.parity.norm_distances import NormDistances, norm_distances
from edgec.exporter.parity.typical_values import Typical, typical_values
from edgec.exporter.sources.modules.factory import Example
from edgec.runtime_py.functions.prepared_inputs import spread

_COUNT, _RUN = 16, 8
# Values of all outputs that are kept for comparison: 256 MB in float32.
_MOST_VALUES = 1 << 26
_SHIFTS = (5.0, 20.0, 100.0)
_TIMES = 4.0
# Half of the largest float16.
_LARGEST = 32_000
# Of the made inputs, those that all batch norms are asked about.
_LOOKED_AT = 6
_LOUDER, _LEVELLED = 4.0, (0.8, 1.25)
Drawing = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class Stress:
    """Inputs that the float model takes; ``moderate``: as large as real ones may be, so that float16 must hold them."""

    name: str
    inputs: Example
    moderate: bool


@dataclass(frozen=True)
class MadeInputs:
    """What a module is judged on.

    Attributes:
        calls: inputs whose outputs are compared; the first are the factory's.
        outputs: of the float model, for each call.
        stress: inputs on which float16 must give numbers.
        note: which inputs these are, for the ladder.
    """

    calls: tuple[Example, ...]
    outputs: tuple[Sequence[Tensor], ...]
    stress: tuple[Stress, ...]
    note: str


def made_inputs(model: nn.Module, examples: Example, run: Callable[[Example], Sequence[Tensor] | None]) -> MadeInputs:
    """Make inputs for a module.

    Args:
        model: in evaluation mode; its batch norm is asked.
        examples: its example inputs.
        run: the float model's outputs, or None where it fails; inputs without finite outputs are left out.
    """
    typical = typical_values(model, lambda shift, scale: _drawn(examples, _white, 0, (shift, scale)))
    first = run(examples)
    values = sum(value.numel() for value in first) if first else 1
    count = max(2, min(_COUNT, _MOST_VALUES // max(1, values)))
    known = (typical.shift, typical.scale) if typical else None
    kinds = _kinds(model, examples, count - 1)
    states, before, kept = carried_states(examples, first or ()), first or (), [(examples, first or ())]
    for seed, kind in enumerate(kinds):
        made = with_states(_drawn(examples, kind, seed, known), examples, states, before)
        found = run(made) if _is_new(made, examples) else None
        if found is not None and _finite(found):
            kept.append((made, found))
            before = found
    calls, outputs = zip(*kept, strict=True)
    stress = [
        each for each in _stressed(examples if typical is None else calls[-1], typical) if _finite(run(each.inputs))
    ]
    deeper = norm_distances(model, spread(calls, _LOOKED_AT)) if typical else None
    note = _note(len(calls), typical, deeper, kinds.count(signal), bool(states))
    return MadeInputs(calls, outputs, tuple(stress), note)


def _kinds(model: nn.Module, examples: Example, count: int) -> list[Drawing]:
    """What each made input is like; those of a kind follow each other, so that states are what several of it leave."""
    real = audio_or_vision(model) and any(map(_is_signal, examples))
    order: tuple[Drawing, ...] = (_white, _smooth, _shuffled, *((signal, signal) if real else ()))
    return sorted((order[place % len(order)] for place in range(count)), key=order.index)


def _is_signal(value: Tensor) -> bool:
    return _varies(value) and (is_sound(value) or is_picture(value))


def _note(count: int, typical: Typical | None, deeper: NormDistances | None, signals: int, states: bool) -> str:
    if count == 1:
        return "judged on the example inputs alone; give real ones with --inputs"
    like = typical.line if typical else "mean and spread of the example"
    like += f", {deeper.line}" if deeper is not None and len(deeper.distances) > 1 else ""
    real = f"; {signals} like voices or pictures" if signals else ""
    carried = "; states of the call before" if states else ""
    return (
        f"judged on {count} made inputs, the example among them ({like}{real}{carried}); give real ones with --inputs"
    )


def _is_new(inputs: Example, examples: Example) -> bool:
    return not all(map(torch.equal, inputs, examples))


def _finite(outputs: Sequence[Tensor] | None) -> bool:
    """Whether outputs are numbers; a mask's infinities count as such, NaN never."""
    return outputs is not None and not any(bool(each.isnan().any()) for each in outputs)


def _drawn(examples: Example, kind: Drawing, seed: int, known: tuple[float, float] | None) -> Example:
    drawn = torch.Generator().manual_seed(seed)
    return tuple(_value(each, kind, drawn, known) for each in examples)


def _value(value: Tensor, kind: Drawing, drawn: torch.Generator, known: tuple[float, float] | None) -> Tensor:
    """Another value of an input; constants, as states and masks begin with, stay."""
    if not _varies(value):
        return value
    if not value.is_floating_point():
        masks = value.dtype is torch.bool or int(value.max()) <= 1
        return value if masks else _shuffled(value, drawn)
    if kind is signal and not _is_signal(value):
        kind = _smooth
    if kind is _shuffled and known is None:
        return _shuffled(value, drawn)
    mean, spread = known or (float(value.mean()), float(value.std()))
    noise = mean + spread * (_white if kind is _shuffled else kind)(value, drawn)
    if known is not None:
        return noise.to(value.dtype)
    low, high = (float(end) for end in torch.aminmax(value))
    if kind is signal and is_sound(value):
        most = max(1.0, -low, high)
        return (_loudness(spread, drawn) * noise).clamp(-most, most).to(value.dtype)
    return noise.clamp(low, high).to(value.dtype)


def _varies(value: Tensor) -> bool:
    return value.numel() > 1 and not value.is_complex() and bool((value != value.flatten()[0]).any())


def _loudness(spread: float, drawn: torch.Generator) -> float:
    """How much louder than the example a sound is: 12 dB either way, unless spreads of 1 say that all are levelled."""
    if _LEVELLED[0] < spread < _LEVELLED[1]:
        return 1.0
    return float(_LOUDER ** (2 * float(torch.rand((), generator=drawn)) - 1))


def _white(value: Tensor, drawn: torch.Generator) -> Tensor:
    return torch.randn(value.shape, generator=drawn)


def _smooth(value: Tensor, drawn: torch.Generator) -> Tensor:
    """Noise that keeps a value over eight neighbours of the last axis, and of the last but one of images."""
    noise = _white(value, drawn)
    for axis in range(max(1, value.dim() - (2 if value.dim() > 3 else 1)), value.dim()):
        noise = noise.index_select(axis, torch.arange(value.shape[axis]) // _RUN)
    return noise


def _shuffled(value: Tensor, drawn: torch.Generator) -> Tensor:
    return value.flatten()[torch.randperm(value.numel(), generator=drawn)].reshape(value.shape)


def louder(calls: Sequence[Example], run: Callable[[Example], Sequence[Tensor] | None]) -> tuple[Stress, ...]:
    """The user's own inputs times 4, where the float model gives numbers; outputs as large as that need not be held."""
    times = (_moved(call, _TIMES, 0.0) for call in calls)
    moved = [(each, run(each)) for each in times]
    return tuple(
        Stress("given inputs times 4", each, moderate=all(bool((out.abs() < _LARGEST).all()) for out in found or ()))
        for each, found in moved
        if _finite(found)
    )


def _stressed(inputs: Example, typical: Typical | None) -> list[Stress]:
    """The inputs times 4, and shifted where no batch norm tells what their mean is."""
    moved = [Stress("made inputs times 4", _moved(inputs, _TIMES, 0.0), moderate=True)]
    if typical is None:
        moved += [Stress(f"made inputs shifted by {by:g} spreads", _moved(inputs, 1.0, by), by <= 5) for by in _SHIFTS]
    return [each for each in moved if _is_new(each.inputs, inputs)]


def _moved(inputs: Example, times: float, spreads: float) -> Example:
    def one(value: Tensor) -> Tensor:
        return times * value + spreads * value.std() if value.is_floating_point() and _varies(value) else value

    return tuple(map(one, inputs))
