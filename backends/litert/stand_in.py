"""A constant of one value in the place of a rounded matrix, while LiteRT's converter works.

    W float32 [N, K]   ==>   edgec::stand_in(v, N, K)   ->   a constant of the flatbuffer, all v

The converter holds such a constant as one number, where it would copy, hash and compare the floats of a matrix in every
signature. Each matrix has a value of its own, by which it is found afterwards (weights.py).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import torch
from torch import Tensor

_STEP: Final = 2.0**-12
"""Every 4,096th of a number up to 2,048 is a float32, so that millions of matrices have values of their own."""


def stand_in_value(place: int) -> float:
    """The value of the matrix at a place; never 0 or 1, with which products are simplified."""
    return 1 + _STEP * (place + 1)


@torch.library.custom_op("edgec::stand_in", mutates_args=())
def stand_in(value: float, rows: int, columns: int) -> Tensor:
    """All of one value, float32 [rows, columns]."""
    return torch.full((rows, columns), value)


@stand_in.register_fake
def _shape(value: float, rows: int, columns: int) -> Tensor:
    return torch.empty(rows, columns)


def register_lowering() -> None:
    """Tell LiteRT's converter what a stand-in is."""
    ir: Any = import_module("litert_converter.mlir.ir")
    arith: Any = import_module("litert_converter.mlir.dialects.arith")
    lowerings: Any = import_module("litert_torch.backend.lowerings")

    def lowered(context: Any, value: float, rows: int, columns: int) -> Any:
        form = ir.RankedTensorType.get([rows, columns], ir.F32Type.get())
        held = ir.DenseElementsAttr.get_splat(form, ir.FloatAttr.get(ir.F32Type.get(), value))
        return arith.ConstantOp(form, held).results[0]

    lowerings.lower(torch.ops.edgec.stand_in)(lowered)
