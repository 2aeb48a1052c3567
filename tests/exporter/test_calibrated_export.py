"""Recipes that fit weights to text, from the command's function to a bundle that verifies."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgec
from edgec.bundle.folder import read_manifest
from edgec.errors import InputError
from edgec.exporter.recipes.file import load_recipe, parse_recipe
from edgec.exporter.recipes.text import recipe_text

# Random weights: four bits flip many of their top tokens.
LOOSE = {"kl_mean": 5.0, "top1_agreement": 0.0}
WORDS = "the cat sat on the mat and looked at the dog that ran over the hill to find a red ball\n"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text(WORDS * 300)
    return file


def _recipe(folder: Path, head: str) -> Path:
    """``4bit`` with other first lines."""
    body = recipe_text(load_recipe("4bit")).partition("\n\n")[2]
    file = folder / "own.toml"
    file.write_text(f"{head}\n\n{body}")
    return file


@pytest.mark.slow
@pytest.mark.parametrize(
    "head",
    [
        'prepare = ["rotate", "awq"]\nalgorithm = "gptq"',
        'algorithm = "gptq"',
        'prepare = ["smooth"]',
    ],
)
def test_every_way_ends_in_a_verified_bundle(head: str, tiny_folder: Path, text: Path, tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, head)
    bundle = edgec.export(
        tiny_folder, recipe=recipe, calibrate=text, out=tmp_path / "a.edgec", context=128, budgets=LOOSE
    )
    manifest = read_manifest(bundle)
    passes = [info.name for info in manifest.passes]
    assert ("rotate" in passes) == ("rotate" in head) and ("migrate_scales" in passes) == ("prepare" in head)
    assert all(rung.passed for rung in manifest.parity if rung.gated)


@pytest.mark.long
def test_text_is_asked_for(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        edgec.export(tiny_folder, recipe="4bit-gptq", out=tmp_path / "a.edgec", context=128, budgets=LOOSE)
    assert caught.value.code == "E521" and not (tmp_path / "a.edgec").exists()


@pytest.mark.slow
def test_a_search_is_repeated_by_the_bundles_recipe(tiny_folder: Path, text: Path, tmp_path: Path) -> None:
    searched = edgec.export(
        tiny_folder,
        recipe="4bit",
        target_bits=6.5,
        calibrate=text,
        out=tmp_path / "a.edgec",
        context=128,
        budgets=LOOSE,
    )
    manifest = read_manifest(searched)
    assert manifest.bit_search is not None and 4 < manifest.bit_search.bits <= 6.5
    assert "Bits per layer" in (searched / "report.html").read_text()
    again = edgec.export(
        tiny_folder, recipe=searched / "recipe.toml", out=tmp_path / "b.edgec", context=128, budgets=LOOSE
    )
    assert (again / "model.pte").read_bytes() == (searched / "model.pte").read_bytes()
    assert read_manifest(again).bit_search is None


def test_a_search_needs_text(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        edgec.export(tiny_folder, target_bits=5, out=tmp_path / "a.edgec", context=128, budgets=LOOSE)
    assert caught.value.code == "E532"


@pytest.mark.parametrize("wrong", ["rotate", ["turn"], [1]])
def test_preparations_are_known(wrong: object) -> None:
    with pytest.raises(InputError) as caught:
        parse_recipe({"prepare": wrong}, "r", "")
    assert caught.value.code == "E171"
