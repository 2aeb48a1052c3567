"""What a module holds, and a copy of it for each use.

What its code writes while it runs, into buffers or attributes, then changes nothing that is captured.
"""

from __future__ import annotations

import copy
from types import FunctionType
from typing import Any

from torch import Tensor, nn


def held_state(module: nn.Module) -> dict[str, Any]:
    """Parameters, buffers (those that are not saved too), and plain attributes, by name."""
    plain = {
        f"{place}.{name}".removeprefix("."): value
        for place, part in module.named_modules()
        for name, value in vars(part).items()
        if isinstance(value, Tensor | bool | int | float | str)
    }
    return {**module.state_dict(), **dict(module.named_buffers()), **plain}


def own_copy(module: nn.Module) -> nn.Module:
    """A copy with buffers and attributes of its own over the same parameters; the module itself where none can be made.

    None can be made of what holds locks, files or generators, and of a function that was given to a module and keeps
    the module it was made for.
    """
    if any(_keeps_a_module(held) for part in module.modules() for held in vars(part).values()):
        return module
    known: dict[int, Any] = {id(parameter): parameter for parameter in module.parameters()}
    # Tensors that torch computed can only be copied without how they were computed.
    computed = [held for part in module.modules() for held in vars(part).values() if _is_computed(held)]
    known |= {id(tensor): tensor.detach().clone() for tensor in computed}
    try:
        return copy.deepcopy(module, known)
    except Exception:  # Objects of any kind refuse to be copied in their own way.
        return module


def _keeps_a_module(held: object) -> bool:
    cells = held.__closure__ or () if isinstance(held, FunctionType) else ()
    return any(isinstance(_content(cell), nn.Module) for cell in cells)


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _is_computed(held: object) -> bool:
    return isinstance(held, Tensor) and held.grad_fn is not None
