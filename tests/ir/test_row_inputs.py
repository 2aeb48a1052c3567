"""Rows in the place of tokens as methods of varying and of fixed shapes take them."""

from __future__ import annotations

import torch

from edgec.ir.attention import SPAN_END
from edgec.ir.row_inputs import EMBEDS_MASK, INPUT_EMBEDS, MROPE, placed_part, static_part

TEXT = {
    INPUT_EMBEDS: torch.arange(12.0).reshape(1, 6, 2),
    EMBEDS_MASK: torch.tensor([[[False], [True], [True], [False], [False], [True]]]),
    SPAN_END: torch.arange(6)[None],
    MROPE: torch.arange(18).reshape(3, 6),
}


def test_a_part_of_a_text_has_the_rows_of_its_tokens() -> None:
    part = placed_part(TEXT, 1, 3)
    assert part[INPUT_EMBEDS].tolist() == [[[2, 3], [4, 5], [6, 7]]] and part[EMBEDS_MASK].flatten().tolist() == [
        True,
        True,
        False,
    ]
    assert part[SPAN_END].tolist() == [1, 2, 3] and part[MROPE].tolist() == [[1, 2, 3], [7, 8, 9], [13, 14, 15]]


def test_fixed_shapes_are_filled_up_with_zeros_in_types_that_every_runtime_takes() -> None:
    part = static_part(TEXT, 4, 2, 4)
    assert part[INPUT_EMBEDS].tolist() == [[[8, 9], [10, 11], [0, 0], [0, 0]]]
    assert part[EMBEDS_MASK].dtype == torch.float32 and part[EMBEDS_MASK].flatten().tolist() == [0, 1, 0, 0]
    assert part[SPAN_END].dtype == part[MROPE].dtype == torch.int32
    assert part[SPAN_END].tolist() == [4, 5, 0, 0] and part[MROPE].shape == (3, 4)


def test_tokens_after_the_text_have_no_rows() -> None:
    assert static_part({INPUT_EMBEDS: TEXT[INPUT_EMBEDS]}, 8, 1, 1)[INPUT_EMBEDS].tolist() == [[[0, 0]]]
