"""Positions of three parts: those of transformers' own function, and how text goes on after them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from edgec.bundle.mrope import mrope_positions
from tests.vision_language import tiny_vision_language
from tests.vision_words import IMAGE_TOKEN

GRID = (2, 3)
IMAGE = [IMAGE_TOKEN] * 6
TEXTS = [[8, 9, *IMAGE, 10, 11], [*IMAGE, 8], [8, *IMAGE, 9, 10, *IMAGE], [*IMAGE, 8, *IMAGE, 9, *IMAGE, 10]]


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
@pytest.mark.parametrize("tokens", TEXTS)
def test_they_are_those_of_transformers(tokens: list[int], family: str) -> None:
    ids = torch.tensor([tokens])
    grids = torch.tensor([[1, 4, 6]] * (tokens.count(IMAGE_TOKEN) // 6))  # patches, of which 2 x 2 become a row
    given = {"image_grid_thw": grids, "mm_token_type_ids": (ids == IMAGE_TOKEN).int()}
    wanted, shift = tiny_vision_language(family).model.get_rope_index(ids, **given)
    made = mrope_positions(tokens, IMAGE_TOKEN, GRID, len(tokens) + 3)
    assert np.array_equal(made[:, : len(tokens)], wanted[:, 0].numpy())
    # What is generated is counted on from the largest part.
    after = np.arange(len(tokens), len(tokens) + 3) + int(shift)
    assert np.array_equal(made[:, len(tokens) :], np.tile(after, (3, 1)))


def test_text_alone_has_three_equal_parts() -> None:
    assert np.array_equal(mrope_positions([8, 9], IMAGE_TOKEN, GRID, 4), np.tile(np.arange(4), (3, 1)))
    assert mrope_positions([], IMAGE_TOKEN, GRID).shape == (3, 0)


def test_images_without_a_token_between_them_follow_each_other() -> None:
    made = mrope_positions([*IMAGE, *IMAGE, 8], IMAGE_TOKEN, GRID)
    assert np.array_equal(made[:, 6:12], made[:, :6] + 3) and made[:, 12].tolist() == [6, 6, 6]
