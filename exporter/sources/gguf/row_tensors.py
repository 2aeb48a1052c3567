"""Matrices of a GGUF file as tensors whose rows are dequantised, or unpacked, when they are read.

Blocks lie along rows, so that any rows can be read alone. Rows of queries and keys are asked for in the model's order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from edgec.bundle.gguf_header import GgufTensor
from edgec.exporter.sources.gguf.blocks import IntegerBlocks, blocks_of_rows
from edgec.exporter.sources.gguf.rows import PackedRows, check_finite, dequantized_rows, raw_rows
from edgec.ir.row_tensor import ChosenRows, RowTensor

# Values that are made at a time: working copies of a whole lm_head were the peak of an export's memory.
_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class StoredRows:
    """The rows of one stored matrix.

    Attributes:
        tensor: in the file.
        order: the stored row of each row, int64 [rows]; None where they are the same.
    """

    tensor: GgufTensor
    order: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """ChosenRows, width."""
        rows, width = self.tensor.shape
        return rows, width

    def values(self) -> RowTensor:
        """Their values, float32."""
        return RowTensor(self.shape, torch.float32, self._values)

    def integers(self) -> tuple[RowTensor, RowTensor, RowTensor]:
        """Their integers, int8 [rows, width]; scales, float32 [rows, groups]; minimums of that form, or int8 zeros."""
        first = blocks_of_rows(self.tensor.type, self._raw(slice(0, 1)))
        groups, lifted = (self.shape[0], first.s.shape[1]), first.minimum is not None
        codes = RowTensor(self.shape, torch.int8, self._reader(lambda blocks: blocks.codes))
        scale = RowTensor(groups, torch.float32, self._reader(lambda blocks: blocks.scale))
        beside = torch.float32 if lifted else torch.int8
        return codes, scale, RowTensor(groups, beside, self._reader(_minimum if lifted else _no_minimum))

    def _values(self, rows: ChosenRows) -> Tensor:
        def dequantized(raw: PackedRows) -> Tensor:
            values = dequantized_rows(self.tensor, raw)
            check_finite(self.tensor, bool(np.isfinite(values).all()))
            return torch.from_numpy(values)

        return self._made(rows, dequantized)

    def _reader(self, chosen: Callable[[IntegerBlocks], Tensor]) -> Callable[[ChosenRows], Tensor]:
        """Makes one table of the unpacked integers of any rows."""
        return lambda rows: self._made(rows, lambda raw: chosen(blocks_of_rows(self.tensor.type, raw)))

    def _made(self, rows: ChosenRows, make: Callable[[PackedRows], Tensor]) -> Tensor:
        """What is made of the bytes of some rows, at most some million values at a time."""
        raw, step = self._raw(rows), max(1, _AT_ONCE // self.shape[1])
        if len(raw) <= step:
            return make(raw)
        made = None
        for start in range(0, len(raw), step):
            part = make(raw[start : start + step])
            if made is None:
                made = part.new_empty(len(raw), part.shape[1])
            made[start : start + step] = part
        assert made is not None
        return made

    def _raw(self, rows: ChosenRows) -> PackedRows:
        raw = raw_rows(self.tensor)
        asked = rows if self.order is None else self.order[rows]
        chosen: PackedRows = raw[asked if isinstance(asked, slice) else asked.numpy()]
        return chosen


def _minimum(blocks: IntegerBlocks) -> Tensor:
    assert blocks.minimum is not None
    return blocks.minimum


def _no_minimum(blocks: IntegerBlocks) -> Tensor:
    return torch.zeros_like(blocks.s)
