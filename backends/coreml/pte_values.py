"""The values of an ExecuTorch program's method, as torch sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from executorch.exir import schema
    from executorch.exir._serialize._program import PTEFile

_DTYPES = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    11: torch.bool,
    15: torch.bfloat16,
}


def initial_values(program: PTEFile, plan: schema.ExecutionPlan) -> list[Any]:
    """The values of a method when it is loaded: constants, zeroed buffers, numbers, lists of indices."""
    return [_initial(program, value.val) for value in plan.values]


def _initial(program: PTEFile, value: Any) -> Any:
    kind = type(value).__name__
    if kind == "Tensor":
        return _tensor(program, value)
    if kind == "Null":
        return None
    if kind in ("Int", "Double", "Bool", "String"):
        return getattr(value, f"{kind.lower()}_val")
    return value


def _tensor(program: PTEFile, value: schema.Tensor) -> Tensor:
    dtype = _DTYPES[int(value.scalar_type)]
    if value.data_buffer_idx == 0:
        return torch.zeros(list(value.sizes), dtype=dtype)
    data = bytearray(_stored(program, value))
    return torch.frombuffer(data, dtype=dtype).reshape(list(value.sizes))


def _stored(program: PTEFile, value: schema.Tensor) -> bytes:
    mutable: Any = None if value.allocation_info is None else program.mutable_data
    buffers = program.program.constant_buffer if mutable is None else mutable
    return bytes(buffers[value.data_buffer_idx].storage)


def resolved(values: list[Any], index: int) -> Any:
    """A kernel's argument; the items of a list of tensors or integers are indices of other values."""
    value = values[index]
    kind = type(value).__name__
    if kind in ("IntList", "TensorList", "OptionalTensorList"):
        return [None if item == -1 else values[item] for item in value.items]
    return list(value.items) if kind in ("DoubleList", "BoolList") else value
