"""Prompts with images: the tokens and tiles of transformers' own processors, and descriptions that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.bundle.entry_points import Limits, VisionLanguageInfo
from edgec.errors import InputError
from edgec.runtime_py.vision_language.processor import PromptProcessor
from tests.vision_language import FAMILIES, picture, processor, save_processor
from tests.vision_sized import SIZED
from tests.vision_words import IMAGE_TOKEN

LIMITS = Limits(context=256, prefill_chunk=128, logit_rows=16)
# Sizes of the tiny models: edge of a tile, its rows.
SIZES = {"llava": (24, 9), "paligemma": (24, 9)}


def info(family: str, **changed: Any) -> VisionLanguageInfo:
    edge, rows = SIZES.get(family, (32, 4))
    sizes = {"channels": 3, "height": edge, "width": edge, "rows": rows, "image_token": IMAGE_TOKEN}
    return VisionLanguageInfo(limits=LIMITS, **{**sizes, **changed})


def code_of(folder: Path, family: str, text: str = "what", **changed: Any) -> str:
    with pytest.raises(InputError) as error:
        PromptProcessor(folder, info(family, **changed), processor(family).tokenizer).prompt(
            text, [picture()], rendered=False
        )
    return error.value.code


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in SIZED])
def test_tokens_and_tiles_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    own = processor(family)
    made = PromptProcessor(save_processor(family, tmp_path), info(family), own.tokenizer)
    for images in ([picture(1, 1)], [picture(64, 20)], [picture(50, 40), picture(20, 90, seed=1)]):
        text = " and ".join([own.image_token] * len(images)) + " here"
        wanted = own(text=[text], images=[images], return_tensors="np")
        prompt = made.prompt(text, images, rendered=False)
        assert prompt.tokens == wanted["input_ids"][0].tolist()
        assert np.array_equal(prompt.pixels, wanted["pixel_values"].reshape(prompt.pixels.shape))
        assert prompt.tokens.count(IMAGE_TOKEN) == len(prompt.pixels) * made.info.rows


def test_images_without_a_place_come_first(tmp_path: Path) -> None:
    made = PromptProcessor(save_processor("llava", tmp_path), info("llava"), processor("llava").tokenizer)
    tokens = made.prompt("what is", [picture(), picture()], rendered=False).tokens
    assert tokens[:18] == [IMAGE_TOKEN] * 18 and len(tokens) == 20


def test_a_template_that_wrote_the_first_token_gets_no_second(tmp_path: Path) -> None:
    own = processor("llava").tokenizer
    made = PromptProcessor(save_processor("llava", tmp_path), info("llava"), own)
    assert made.prompt("<s>what", [picture()], rendered=True).tokens.count(own.bos_token_id) == 1


def test_tiles_that_the_model_does_not_read_are_refused(tmp_path: Path) -> None:
    folder = save_processor("llava", tmp_path)
    assert code_of(folder, "llava", height=32) == "E657"
    assert code_of(folder, "llava", rows=8) == "E657"
    assert code_of(folder, "llava", image_token=5) == "E657"
    assert code_of(folder, "llava", "<image> and <image>") == "E657"
    assert code_of(folder, "llava", "\ud800") == "E152"


@pytest.mark.parametrize(
    "changed",
    [
        {"processor_class": "AutoProcessor"},
        {"processor_class": "LlamaForCausalLM"},
        {"processor_class": "os.system"},
        {"processor_class": ["LlavaProcessor"]},
        {"image_processor": {"image_processor_type": "Lfm2VlImageProcessorFast"}},
        {"image_processor": {"image_processor_type": "Nobody"}},
        {"image_processor": {"image_processor_type": "CLIPImageProcessor", "size": 5, "crop_size": "x"}},
        {"image_processor": 5},
    ],
)
def test_descriptions_of_other_classes_are_refused(changed: dict[str, Any], tmp_path: Path) -> None:
    file = save_processor("llava", tmp_path) / "processor_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))
    assert code_of(tmp_path, "llava") == "E656"


def test_absent_and_damaged_descriptions_are_refused(tmp_path: Path) -> None:
    assert code_of(tmp_path, "llava") == "E656"
    for text in ("{", "[]", "5", '{"processor_class": NaN}'):
        (tmp_path / "processor_config.json").write_text(text)
        assert code_of(tmp_path, "llava") == "E656"
