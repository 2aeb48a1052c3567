"""The kernel of experts of few bits for tests, with each instruction set that this machine has."""

from __future__ import annotations

import ctypes
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from edgec.backends.edgec_linear.layout import PackedMatrix
from tests.engine.compiled import compiled
from tests.engine.linear_kernels import numbers_of


@dataclass(frozen=True)
class ChosenRows:
    """x float32 [T, 1 or K, I], the experts that its rows choose, int64 [T, K], their number, and the rows of each."""

    x: Tensor
    index: Tensor
    experts: int
    rows: int


@dataclass(frozen=True)
class PackedExperts:
    """The kernel with one instruction set."""

    library: ctypes.CDLL

    def multiply(
        self, call: ChosenRows, shape: PackedMatrix, data: Tensor, bias: Tensor | None, *, in_float: bool = False
    ) -> Tensor:
        """Multiply rows by experts of one matrix, quantised unless ``in_float``: float32 [T, K, rows of an expert]."""
        out = torch.full((*call.index.shape, call.rows), float("nan"))
        numbers = (*call.index.shape, call.x.shape[1], call.experts, call.rows, in_float, *numbers_of(shape))
        given = [0 if t is None else t.data_ptr() for t in (call.x, call.index, bias, data, out)]
        raw = (ctypes.c_int64 * len(numbers))(*numbers)
        assert self.library.test_packed_experts(raw, *map(ctypes.c_void_p, given)) == 0
        return out


def packed_experts(isa: str, folder: Path) -> PackedExperts:
    """The kernel with an instruction set; a library decides once, so each has a copy of its own in ``folder``."""
    copied = shutil.copy(compiled("packed_experts"), folder / f"{isa}.so")
    before = os.environ.get("EDGEC_ISA")
    os.environ["EDGEC_ISA"] = isa
    try:
        library = ctypes.CDLL(str(copied))
        library.test_kernel.restype = ctypes.c_char_p
        assert library.test_kernel() == isa.encode()
    finally:
        os.environ.pop("EDGEC_ISA")
        os.environ |= {} if before is None else {"EDGEC_ISA": before}
    return PackedExperts(library)
