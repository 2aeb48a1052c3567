"""The preparation of images that an export writes down, against transformers' own processors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.bundle.image_preparation import (
    PREPARATION,
    PreparationFile,
    preparation_bytes,
    read_preparation,
)
from edgec.errors import InputError
from edgec.runtime_py.vision_language.prepared_images import PreparedImages
from tests.image_preparations import CASES, EDGES, PUBLISHED, PreparedCase
from tests.vision_language import picture


@pytest.mark.parametrize("name", CASES)
def test_each_family_is_described_as_its_processor_prepares_images(name: str, tmp_path: Path) -> None:
    prompts, words = CASES[name].prompts(tmp_path), CASES[name].tokenizer
    made = CASES[name].described(tmp_path).preparation
    assert made is not None, CASES[name].described(tmp_path).lacking
    prepared = PreparedImages(made, prompts.info)
    for size in EDGES:
        image = picture(*size)
        wanted = prompts.prompt("what", [image], rendered=False)
        # LFM2-VL's values are rounded in another order.
        np.testing.assert_allclose(prepared.tiles(image), wanted.pixels, rtol=0, atol=1e-6)
        own = {"add_special_tokens": False} if made.texts.special_tokens == "never" else {}
        assert words(prepared.prompt("what", [size]), **own)["input_ids"] == wanted.tokens


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_settings_are_described_too(name: str, tmp_path: Path) -> None:
    prompts = PUBLISHED[name].prompts(tmp_path)
    made = PUBLISHED[name].described(tmp_path).preparation
    assert made is not None, PUBLISHED[name].described(tmp_path).lacking
    image = picture(1000, 700)
    wanted = prompts.prompt("what", [image], rendered=False).pixels
    np.testing.assert_allclose(PreparedImages(made, prompts.info).tiles(image), wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "name, images, why",
    [
        ("gemma3", {"do_resize": False}, "scales no images"),
        ("llava", {"resample": 6}, ""),
        (
            "paligemma",
            {"do_pad": True, "pad_size": {"height": 24, "width": 24}, "size": {"height": 20, "width": 20}},
            "",
        ),
        ("idefics3", {"do_image_splitting": False}, "makes other tiles"),
    ],
)
def test_settings_that_cannot_be_written_down_leave_the_reason(
    name: str, images: dict[str, Any], why: str, tmp_path: Path
) -> None:
    case = CASES[name]
    file = PreparedCase(case.family, case.info, images, case.own).described(tmp_path)
    assert file.preparation is None and file.lacking and why in file.lacking


def test_the_file_is_read_as_it_was_written_and_what_contradicts_itself_is_refused(tmp_path: Path) -> None:
    file = CASES["idefics3"].described(tmp_path)
    path = tmp_path / PREPARATION
    path.parent.mkdir()
    assert read_preparation(tmp_path) is None
    lacking = PreparationFile(lacking="it scales no images")
    path.write_bytes(preparation_bytes(lacking))
    assert read_preparation(tmp_path) == lacking
    text = preparation_bytes(file).decode()
    path.write_text(text)
    assert read_preparation(tmp_path) == file
    for old, new in (
        ('"longest_edge"', '"proportions"'),
        ('"stretch"', '"cover"'),
        ('"edge": 64', '"edge": 1048576'),
        ('"scale": 0.', '"scale": -0.'),
        ('"placeholder": "<image>"', '"placeholder": ""'),
        ('"resample": "lanczos"', '"resample": "best"'),
        ('"grid"', '"gird"'),
    ):
        assert old in text
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(InputError) as refused:
            read_preparation(tmp_path)
        assert refused.value.code == "E770"
