"""Whether a module's answer depends on its earlier calls: lists, counters and caches that no graph shows.

    a: x, x', x        b: x', x        three answers to x, two to x', each the same whatever came before

A module that fills a cache in its first call, such as a table of positions, passes; one that remembers values does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from edgec.exporter.capture.kept_state import keeps_state
from edgec.exporter.sources.modules.module_state import held_state
from edgec.exporter.sources.modules.returned import Returned, returned_of

# Sums of several threads may come in another order; what a call keeps changes more than the last places.
_SAME = 1e-5


def lasting_answer(fresh: Callable[[], nn.Module], inputs: Sequence[Tensor], where: str) -> Returned:
    """What a module returns for its inputs, once it is known to return the same after other calls.

    Args:
        fresh: gives a module without earlier calls, each time.
        inputs: the example inputs, which are not changed.
        where: the model, for errors.

    Raises:
        InputError: E790, an answer depends on an earlier call; E792, what it returns cannot be outputs.
        Exception: whatever the module's own code raises in its first call.
    """
    module, others = fresh(), [_other(value) for value in inputs]
    before = _state(module)
    first = _answer(module, inputs)
    changed = [name for name, value in _state(module).items() if before.get(name) != value]
    returned = returned_of(first, where)
    # Copies: a later call may write into what this one returned.
    returned = replace(returned, tensors=tuple(tensor.clone() for tensor in returned.tensors))
    wanted = returned.tensors
    second, third = _tried(module, others, where), _tried(module, inputs, where)
    module = fresh()
    others_first, inputs_second = _tried(module, others, where), _tried(module, inputs, where)
    same = _same(wanted, third) and _same(wanted, inputs_second)
    if not same or (second is not None and not _same(second, others_first)):
        kept = ", ".join(changed[:3]) or "a list or an object"
        raise keeps_state(where, f"the same inputs give other outputs after another call; forward writes {kept}")
    return returned


def _state(module: nn.Module) -> dict[str, Any]:
    """What a module holds by name, tensors by their memory and the writes into it."""
    return {
        name: (value.data_ptr(), value._version) if isinstance(value, Tensor) and not value.is_inference() else value
        for name, value in held_state(module).items()
    }


def _answer(module: nn.Module, inputs: Sequence[Tensor]) -> Any:
    """What a module returns for copies of inputs; random numbers are the same in every call."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return module(*(value.clone() for value in inputs))


def _other(value: Tensor) -> Tensor:
    """Other values of the same kind: in another order, and half as large where they are not whole numbers."""
    moved = value.flatten().roll(1).reshape(value.shape)
    return moved * 0.5 if value.is_floating_point() else moved


def _tried(module: nn.Module, inputs: Sequence[Tensor], where: str) -> tuple[Tensor, ...] | None:
    """The outputs for inputs, as copies that later calls do not change; None where the module does not take them."""
    try:
        answer = _answer(module, inputs)
    except Exception:  # Model code of any family fails in its own way.
        return None
    return tuple(tensor.clone() for tensor in returned_of(answer, where).tensors)


def _same(one: Sequence[Tensor], other: Sequence[Tensor] | None) -> bool:
    """Whether outputs are the same but for the last places."""
    return other is not None and len(one) == len(other) and all(map(_alike, one, other))


def _alike(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    finite = one[one.isfinite()]
    noise = _SAME * float(finite.abs().max()) if finite.numel() else 0.0
    return torch.allclose(one.double(), other.double(), rtol=0, atol=noise, equal_nan=True)
