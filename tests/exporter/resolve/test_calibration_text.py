from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgec.bundle.entry_points import Limits
from edgec.errors import InputError
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import Recipe, for_backend
from edgec.exporter.resolve.calibration_text import TOKENS, calibration_tokens
from edgec.exporter.stages.pass_orders import static_decoder_passes
from edgec.ir.weight_scheme import WeightScheme, lut
from edgec.passes.compress.palettize import Palettize


def _tokenizer(text: str, **_: Any) -> dict[str, list[int]]:
    return {"input_ids": [ord(letter) for letter in text]}


TABLES = Recipe("r", weights=lut(4, 8))


def test_the_first_tokens_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("abc" * 3000)
    tokens = calibration_tokens(file, TABLES, _tokenizer)
    assert len(tokens) == TOKENS and tokens[:4] == (97, 98, 99, 97)
    assert calibration_tokens(None, TABLES, _tokenizer) == ()


@pytest.mark.parametrize(
    ("recipe", "tokenizer", "words"),
    [
        (Recipe("r", weights=WeightScheme(4, 32)), _tokenizer, "no look-up tables"),
        (TABLES, None, "no tokenizer"),
        (for_backend(load_recipe("8bit"), "xnnpack"), _tokenizer, "makes no look-up tables here"),
    ],
)
def test_what_would_have_no_effect_is_refused(tmp_path: Path, recipe: Recipe, tokenizer: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        calibration_tokens(tmp_path / "text.txt", recipe, tokenizer)
    assert caught.value.code == "E442" and words in caught.value.why and caught.value.fix


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        calibration_tokens(tmp_path / "absent.txt", TABLES, _tokenizer)
    assert caught.value.code == "E119" and "--calibrate" in caught.value.fix


def test_static_methods_hand_the_tokens_to_the_tables() -> None:
    limits = Limits(context=64, prefill_chunk=16, logit_rows=1)
    recipe = for_backend(load_recipe("lut4"), "coreml")
    (tables,) = [each for each in static_decoder_passes(recipe, limits, (1, 2, 3)) if isinstance(each, Palettize)]
    assert tables.calibration.tokens == (1, 2, 3) and tables.calibration.context == 64
    (plain,) = [each for each in static_decoder_passes(recipe, limits) if isinstance(each, Palettize)]
    assert not plain.calibration


@pytest.mark.parametrize("name", ["8bit", "4bit", "int4-channel"])
def test_fixed_point_measures_ranges_on_the_text_whatever_the_weights(name: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("abc" * 10)
    recipe = for_backend(load_recipe(name), "qnn")
    assert len(calibration_tokens(tmp_path / "text.txt", recipe, _tokenizer)) == 30
