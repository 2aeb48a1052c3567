"""Images of LFM2-VL: one tile, a grid of tiles with the whole image behind it, and transformers' own rules for both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.bundle.entry_points import Limits, PatchesInfo, VisionLanguageInfo
from edgec.errors import InputError
from edgec.runtime_py.vision_language.processor import PromptProcessor
from edgec.runtime_py.vision_language.split_images import nearest_grid
from tests.vision_language import picture, processor, save_processor, shown
from tests.vision_sized import SIZE
from tests.vision_words import IMAGE_TOKEN, vocabulary

INFO = VisionLanguageInfo(
    limits=Limits(context=256, prefill_chunk=128, logit_rows=16),
    channels=3,
    height=32,
    width=32,
    rows=16,
    image_token=IMAGE_TOKEN,
    patches=PatchesInfo(size=4, merge=2, order="tiles"),
)
# One grey level of 255, in values from -1 to 1, and rounding.
LEVEL = 1.001 / 127.5
STARTS, ENDS, WHOLE = 5, 6, 7
TILE = [IMAGE_TOKEN] * 16


def made(folder: Path, **changed: Any) -> PromptProcessor:
    info = INFO.model_copy(update=changed)
    return PromptProcessor(save_processor("lfm2_vl", folder), info, processor("lfm2_vl").tokenizer)


def pixels(image: Any) -> Any:
    return (np.asarray(image, np.float32).transpose(2, 0, 1) - 127.5) / 127.5


def test_an_image_of_any_size_in_one_tile_is_that_of_transformers(tmp_path: Path) -> None:
    prompts = made(tmp_path, height=SIZE[0], width=SIZE[1], rows=20)
    for images in ([picture(1, 1)], [picture(640, 200)], [picture(50, 40), picture(20, 90, seed=1)]):
        text = " and ".join(["<image>"] * len(images)) + " here"
        fitting = [shown("lfm2_vl", image) for image in images]
        wanted = processor("lfm2_vl")(text=[text], images=[fitting], return_tensors="np")
        prompt = prompts.prompt(text, images, rendered=False)
        assert prompt.tokens == wanted["input_ids"][0].tolist() and prompt.tokens.count(IMAGE_TOKEN) == 20 * len(images)
        assert np.array_equal(prompt.pixels, np.stack([pixels(image) for image in fitting]))


def test_a_large_image_is_cut_row_by_row_and_follows_its_parts(tmp_path: Path) -> None:
    image = picture(100, 60)
    prompt = made(tmp_path).prompt("<image>what", [image], rendered=False)
    place = vocabulary()["<unk>"]
    parts = [token for _ in range(6) for token in (place, *TILE)]
    assert prompt.tokens == [STARTS, *parts, WHOLE, *TILE, ENDS, vocabulary()["what"]]
    tiles = prompt.pixels[:6].reshape(2, 3, 3, 32, 32).transpose(2, 0, 3, 1, 4).reshape(3, 64, 96)
    assert np.array_equal(tiles, pixels(image.resize((96, 64), 2)))
    alone = made(tmp_path).prompt("<image>what", [image.resize((32, 19), 2)], rendered=False)
    # The whole image keeps its proportions: 32 x 19 pixels between bars of the mean colour.
    assert prompt.pixels.shape == (7, 3, 32, 32) and len(alone.pixels) == 1
    assert abs(prompt.pixels[6, :, (0, -1)]).max() < LEVEL


@pytest.mark.parametrize(
    "changed, images, tiles",
    [
        # 5 tiles fit, of which one is left to the text, and one is the whole image.
        ({"limits": Limits(context=80, prefill_chunk=80, logit_rows=16)}, 1, 3),
        # Two images have half of the context each.
        ({"limits": Limits(context=160, prefill_chunk=80, logit_rows=16)}, 2, 6),
        ({"limits": Limits(context=40, prefill_chunk=40, logit_rows=16)}, 1, 1),
        # Tiles of another size than the model was trained to read in a grid.
        ({"height": 24, "rows": 12}, 1, 1),
    ],
)
def test_there_are_as_many_tiles_as_the_context_holds(
    changed: dict[str, Any], images: int, tiles: int, tmp_path: Path
) -> None:
    text = "<image>" * images
    assert len(made(tmp_path, **changed).prompt(text, [picture(100, 60)] * images, rendered=False).pixels) == tiles


@pytest.mark.parametrize(
    "size, grid",
    [
        ((1600, 1200), (3, 2)),
        ((1200, 1600), (2, 3)),
        ((1024, 1024), (2, 2)),
        ((2000, 2000), (3, 3)),
        ((3000, 300), (10, 1)),
    ],
)
def test_the_grid_is_the_nearest_in_proportions(size: tuple[int, int], grid: tuple[int, int]) -> None:
    assert nearest_grid(*size, 512, 2, 10) == grid
    assert nearest_grid(*size, 512, 2, 1) == (1, 1)


def test_a_grid_and_its_pixels_are_those_of_transformers_with_torchvision(tmp_path: Path) -> None:
    pytest.importorskip("torchvision")
    from transformers import Lfm2VlImageProcessor, Lfm2VlProcessor

    sizes = {"tile_size": 32, "max_image_tokens": 16, "min_image_tokens": 4, "encoder_patch_size": 4}
    images = Lfm2VlImageProcessor(**sizes)
    draw = np.random.default_rng(0)
    for width, height in draw.integers(30, 4000, (300, 2)).tolist():
        assert nearest_grid(width, height, 512, 2, 10) == images._get_grid_layout(height, width, 2, 10, 512)[:2]
    # A square image is scaled to a whole tile by both.
    own = Lfm2VlProcessor(images, processor("lfm2_vl").tokenizer)
    for edge in (32, 50, 70, 200):
        wanted = own(text=["<image>what"], images=[[picture(edge, edge)]], return_tensors="np")
        prompt = made(tmp_path).prompt("<image>what", [picture(edge, edge)], rendered=False)
        assert prompt.tokens == wanted["input_ids"][0].tolist()
        tiles = wanted["pixel_values"].reshape(-1, 8, 8, 4, 4, 3).transpose(0, 5, 1, 3, 2, 4).reshape(-1, 3, 32, 32)
        np.testing.assert_allclose(prompt.pixels, tiles, atol=LEVEL, rtol=0)


@pytest.mark.parametrize(
    "changed",
    [{"tile_size": "x"}, {"max_tiles": 1 << 20}, {"image_mean": [0.5]}, {"rescale_factor": 0}, {"resample": 9}],
)
def test_descriptions_that_make_no_sense_are_refused(changed: dict[str, Any], tmp_path: Path) -> None:
    file = save_processor("lfm2_vl", tmp_path) / "preprocessor_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))
    with pytest.raises(InputError) as error:
        PromptProcessor(tmp_path, INFO, processor("lfm2_vl").tokenizer)
    assert error.value.code == "E656"
