"""What ``forward`` returns, as the outputs of an artifact: tensors by name, and what is left out or cast, and why.

    {"boxes": b, "scores": [s, t], "kind": "box"}      ==>      boxes, scores_0, scores_1; left out: kind = 'box'

The model itself and its graph are flattened by this one function, so that both give the same tensors in the same order.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from edgec.errors import InputError

# What every runtime and numpy hold; values of more digits or range than float32 are computed, and returned as float32.
_RETURNED = frozenset(
    {
        *(torch.float32, torch.float16, torch.bool),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
    }
)
_CAST = {torch.float64: torch.float32, torch.bfloat16: torch.float32}
_CONSTANTS = (type(None), bool, int, float, complex, str, bytes, enum.Enum, torch.dtype, torch.device)
_COMPUTED = (torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass(frozen=True)
class Returned:
    """The outputs of a call.

    Attributes:
        names: of each tensor, by its place in what was returned.
        tensors: in the order of the names.
        notes: what was left out or cast, for the user.
    """

    names: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    notes: tuple[str, ...] = ()


def returned_of(value: Any, where: str, taken: Collection[str] = ()) -> Returned:
    """Flatten what ``forward`` returned: tuples, lists, dicts, dataclasses and model outputs, nested in any way.

    Args:
        value: what was returned, of the model or while it is traced.
        where: the model, for errors.
        taken: names that no output may have, those of the inputs.

    Raises:
        InputError: E792, there is no tensor with values, or something is neither a tensor nor a constant.
    """
    names, tensors, notes = list[str](), list[Tensor](), list[str]()
    for path, leaf in _leaves(value):
        name = _free_name(_name(path), {*taken, *names})
        left_out = _reason_to_leave_out(leaf, name, where)
        if left_out:
            notes.append(f"{name} is left out: {left_out}")
            continue
        if leaf.dtype in _CAST:
            notes.append(f"{name} is {_plain(leaf.dtype)}: cast to {_plain(_CAST[leaf.dtype])}")
        names.append(name)
        tensors.append(leaf.to(_CAST[leaf.dtype]) if leaf.dtype in _CAST else leaf)
    if not tensors:
        raise _refused(where, "; ".join(notes) or "nothing", "Forward returns no tensor with values.")
    return Returned(tuple(names), tuple(tensors), tuple(notes))


def _leaves(value: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The leaves with their places; dataclasses are opened, which torch takes for leaves until they are registered."""
    while unknown := {type(leaf) for leaf in pytree.tree_leaves(value) if dataclasses.is_dataclass(leaf)}:
        for kind in unknown:
            torch.export.register_dataclass(kind)
    yield from pytree.tree_flatten_with_path(value)[0]


def _reason_to_leave_out(leaf: Any, name: str, where: str) -> str:
    """Why a leaf is left out, being a constant; "" for a tensor with values."""
    if isinstance(leaf, Tensor):
        if leaf.dtype not in _RETURNED | _CAST.keys():
            raise _refused(where, f"{name} is {_plain(leaf.dtype)}", "An output has a type that no runtime returns.")
        return "it has no values" if any(isinstance(size, int) and size == 0 for size in leaf.shape) else ""
    if isinstance(leaf, _COMPUTED):
        raise _refused(where, f"{name} is a number computed from values", "An output is not a tensor.")
    if not isinstance(leaf, _CONSTANTS):
        raise _refused(
            where, f"{name} is of type {type(leaf).__name__}", "An output is neither a tensor nor a constant."
        )
    return f"it is the constant {str(leaf)[:40]!r}" if isinstance(leaf, str | bytes) else f"it is {leaf}"


def _refused(where: str, why: str, what: str) -> InputError:
    fix = "return tensors (real numbers, whole numbers or bool) in tuples, lists, dicts or dataclasses"
    return InputError(what=what, where=where, why=why, fix=fix, code="E792")


def _name(path: tuple[Any, ...]) -> str:
    parts = re.findall(r"\w+", pytree.keystr(path))
    if not parts:
        return "output"
    return "_".join(["output", *parts] if parts[0].isdigit() else parts)


def _free_name(name: str, taken: Collection[str]) -> str:
    """The name, with a number where another tensor has it."""
    count, free = 1, name
    while free in taken:
        count += 1
        free = f"{name}_{count}"
    return free


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
