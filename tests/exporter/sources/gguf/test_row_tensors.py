"""Rows of a GGUF matrix that are made when they are read are those of the whole, however many are made at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from edgec.exporter.sources.gguf.blocks import integer_blocks
from edgec.exporter.sources.gguf.row_tensors import StoredRows
from edgec.ir.row_tensor import whole
from tests.exporter.sources.gguf.test_blocks import FORMS, tensor_of

ORDER = torch.tensor([3, 0, 6, 1, 5, 2, 4])


@pytest.mark.parametrize("order", [None, ORDER], ids=["as stored", "in order"])
@pytest.mark.parametrize("kind", FORMS)
def test_pieces_are_the_rows_of_the_whole(
    kind: str, order: torch.Tensor | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor, expected = tensor_of(tmp_path / "w", kind, (7, 512))
    blocks = integer_blocks(tensor)
    assert blocks is not None
    rows = torch.arange(7) if order is None else order
    minimum = torch.zeros_like(blocks.s) if blocks.minimum is None else blocks.minimum
    stored = StoredRows(tensor, order)
    made = {}
    for at_once in (1 << 22, 1024, 1):
        monkeypatch.setattr("edgec.exporter.sources.gguf.row_tensors._AT_ONCE", at_once)
        made[at_once] = [whole(each) for each in (stored.values(), *stored.integers())]
    for parts in made.values():
        for part, wanted in zip(parts, (expected, blocks.codes, blocks.scale, minimum), strict=True):
            assert part.dtype == wanted.dtype and torch.equal(part, wanted[rows])
