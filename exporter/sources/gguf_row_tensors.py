"""Matrices of a GGUF file as tensors whose rows are dequantised, or unpacked, when they are read.

Blocks lie along rows, so that any rows can be read alone. Rows of queries and keys are asked for in the model's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from edgec.bundle.gguf_header import GgufTensor
from edgec.exporter.sources.gguf_blocks import IntegerBlocks, blocks_of_rows
from edgec.exporter.sources.gguf_rows import PackedRows, check_finite, dequantized_rows, raw_rows
from edgec.ir.row_tensor import ChosenRows, RowTensor


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
        first = self._blocks(slice(0, 1))
        groups = (self.shape[0], first.s.shape[1])
        beside = torch.int8 if first.minimum is None else torch.float32
        codes = RowTensor(self.shape, torch.int8, lambda rows: self._blocks(rows).codes)
        scale = RowTensor(groups, torch.float32, lambda rows: self._blocks(rows).scale)
        return codes, scale, RowTensor(groups, beside, partial(_beside, self))

    def _values(self, rows: ChosenRows) -> Tensor:
        values = dequantized_rows(self.tensor, self._raw(rows))
        check_finite(self.tensor, bool(np.isfinite(values).all()))
        return torch.from_numpy(values)

    def _blocks(self, rows: ChosenRows) -> IntegerBlocks:
        return blocks_of_rows(self.tensor.type, self._raw(rows))

    def _raw(self, rows: ChosenRows) -> PackedRows:
        raw = raw_rows(self.tensor)
        asked = rows if self.order is None else self.order[rows]
        chosen: PackedRows = raw[asked if isinstance(asked, slice) else asked.numpy()]
        return chosen


def _beside(stored: StoredRows, rows: ChosenRows) -> Tensor:
    blocks = stored._blocks(rows)
    minimum = blocks.minimum
    return torch.zeros_like(blocks.s) if minimum is None else minimum
