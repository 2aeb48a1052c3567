"""The sizes of vision-language models: a context where none was named, and images of the size of the export."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgec
from edgec.bundle.folder import open_bundle
from tests.exporter.test_vision_language_end_to_end import words
from tests.vision_bundles import vision_bundle
from tests.vision_language import picture, save_vision_language, tiny_vision_language
from tests.vision_sized import SIZE, SIZED

pytestmark = pytest.mark.slow
COUNT = 16


def test_without_a_context_the_longest_that_works_is_exported(tmp_path: Path) -> None:
    folder = save_vision_language("gemma3", tmp_path / "gemma3")
    bundle = edgec.export(folder, recipe="float", out=tmp_path / "x.edgec")
    info = open_bundle(bundle).manifest.vision_language
    window = tiny_vision_language("gemma3").config.text_config.sliding_window
    assert info is not None and info.limits.context == window
    _, wanted = words("gemma3", "<image>what is this", [picture()], COUNT)
    said = edgec.load(bundle).generate("what is this", images=[picture()], max_new_tokens=COUNT)
    assert list(said.tokens) == wanted


@pytest.mark.parametrize("family", SIZED)
def test_an_image_of_the_export_s_size_is_seen_as_it_is(family: str) -> None:
    image = picture(SIZE[1], SIZE[0], seed=5)
    # Not put into a tile: transformers' processor is given the picture itself.
    _, wanted = words(family, "<image>what is this", [image], COUNT, whole=True)
    said = edgec.load(vision_bundle(family)).generate("what is this", images=[image], max_new_tokens=COUNT)
    assert list(said.tokens) == wanted
