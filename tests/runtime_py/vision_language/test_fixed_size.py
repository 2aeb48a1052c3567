"""Images of one size: in the middle of a tile with their proportions, and patches put together to pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from edgec.bundle.entry_points import Limits, PatchesInfo, VisionLanguageInfo
from edgec.exporter.sources.multimodal.image_patches import cut_lines, cut_patches
from edgec.runtime_py.vision_language.fixed_size import fitted, joined_tiles
from edgec.runtime_py.vision_language.processor import PromptProcessor
from tests.vision_language import picture, processor, save_processor, shown
from tests.vision_words import IMAGE_TOKEN

PATCHES = PatchesInfo(size=4, merge=2, frames=2)
INFO = VisionLanguageInfo(
    limits=Limits(context=160, prefill_chunk=128, logit_rows=16),
    channels=3,
    height=32,
    width=40,
    rows=20,
    image_token=IMAGE_TOKEN,
    patches=PATCHES,
    grid=(4, 5),
)
LINES = INFO.model_copy(update={"grid": None, "patches": PatchesInfo(size=4, merge=2, order="lines")})


def test_patches_are_those_of_transformers_and_go_back_to_pixels() -> None:
    made = processor("qwen2_5_vl").image_processor([picture(40, 32), picture(40, 32, seed=1)], return_tensors="np")
    tiles = joined_tiles(made, INFO)
    assert tiles.shape == (2, 3, 32, 40)
    cut = [cut_patches(PATCHES, torch.from_numpy(tile[None].copy())) for tile in tiles]
    assert np.array_equal(torch.cat([each["pixel_values"] for each in cut]).numpy(), made["pixel_values"])
    assert np.array_equal(torch.cat([each["image_grid_thw"] for each in cut]).numpy(), made["image_grid_thw"])


@pytest.mark.parametrize("size", [(40, 32), (50, 40), (30, 90), (90, 30), (1, 1), (400, 11)])
def test_the_whole_image_lies_in_the_middle_of_the_tile(size: tuple[int, int]) -> None:
    own, image = processor("qwen2_5_vl").image_processor, picture(*size)
    tile = fitted(image, INFO, own.image_mean)
    assert tile.size == (40, 32) and np.array_equal(np.asarray(tile), np.asarray(shown("qwen2_5_vl", image)))
    if size == (40, 32):
        assert np.array_equal(np.asarray(tile), np.asarray(image))


def test_patches_line_by_line_lose_their_padding() -> None:
    made = processor("gemma4").image_processor([picture(40, 32), picture(40, 32, seed=1)], return_tensors="np")
    assert made["pixel_values"].shape[1] > 80
    tiles = joined_tiles(made, LINES)
    cut = [cut_lines(LINES.patches, torch.from_numpy(tile[None].copy())) for tile in tiles]
    for name in ("pixel_values", "image_position_ids"):
        assert np.array_equal(torch.cat([each[name] for each in cut]).numpy(), made[name][:, :80])


def test_patches_of_another_size_are_refused() -> None:
    for info, family in ((INFO, "qwen2_5_vl"), (LINES, "gemma4")):
        for size in ((32, 40), (40, 16), (80, 32)):
            made = processor(family).image_processor([picture(*size)], return_tensors="np")
            with pytest.raises(ValueError, match="patches, and the model reads"):
                joined_tiles(made, info)


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "gemma4"])
def test_a_prompt_has_as_many_tokens_for_every_image(family: str, tmp_path: Path) -> None:
    own = processor(family)
    info = LINES if family == "gemma4" else INFO
    made = PromptProcessor(save_processor(family, tmp_path), info, own.tokenizer)
    for images in ([picture(1, 1)], [picture(640, 200)], [picture(50, 40), picture(20, 90, seed=1)]):
        text = " and ".join(["<image>"] * len(images)) + " here"
        wanted = own(text=[text], images=[[shown(family, image) for image in images]], return_tensors="np")
        prompt = made.prompt(text, images, rendered=False)
        assert prompt.tokens == wanted["input_ids"][0].tolist() and prompt.tokens.count(IMAGE_TOKEN) == 20 * len(images)
        assert np.array_equal(prompt.pixels, joined_tiles(wanted, info))


def test_sizes_that_contradict_each_other_are_no_manifest() -> None:
    for changed in ({"rows": 21}, {"height": 33}, {"grid": (5, 5)}, {"limits": {**dict(INFO.limits), "context": 19}}):
        with pytest.raises(ValueError):
            VisionLanguageInfo.model_validate({**INFO.model_dump(), **changed})
