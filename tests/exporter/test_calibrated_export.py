"""Recipes that fit weights to text, from the command's function to a bundle that verifies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import edgec
from benchmarks.coverage_parts.rounded import compared_with_rounded_graph
from benchmarks.coverage_parts.spoken import NEW_TOKENS, PROMPT
from edgec.bundle.canonical import identity_digest
from edgec.bundle.folder import read_manifest
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions
from edgec.exporter.recipes.file import load_recipe, parse_recipe
from edgec.exporter.recipes.text import recipe_text
from edgec.exporter.report.summary import summary_json
from edgec.runtime_py.sessions.session import Session
from tests.exporter.tiny_sources import write_config

# Random weights: four bits flip many of their top tokens.
LOOSE = {"kl_mean": 5.0, "top1_agreement": 0.0}
# Another order of sums rounds some activations the other way, where the two best logits are this near.
TIE = 1e-3
EXAMPLE = Path(__file__).parents[2] / "examples" / "tiny-stories"
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


@pytest.mark.slow
@pytest.mark.long
def test_text_is_made_where_none_is_given(tiny_folder: Path, tmp_path: Path) -> None:
    outs = [tmp_path / folder / "a.edgec" for folder in ("first", "second")]
    for out in outs:
        out.parent.mkdir()
    options: dict[str, Any] = {"recipe": "4bit-gptq", "context": 128, "budgets": LOOSE}
    bundle = edgec.export(tiny_folder, out=outs[0], **options)
    manifest = read_manifest(bundle)
    made = manifest.calibration
    assert made is not None and made.written > 1024 and made.built_in and made.tokens == made.written + made.built_in
    report = (bundle / "report.html").read_text()
    assert "calibrated on" in report and str(made) in report
    assert summary_json(manifest)["calibration"]["written"] == made.written
    again = edgec.export(tiny_folder, out=outs[1], **options)
    assert identity_digest(read_manifest(again)) == identity_digest(manifest)


@pytest.mark.long
def test_text_is_asked_for_where_none_can_be_made(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "model")
    with pytest.raises(InputError) as caught:
        edgec.export(folder, random_weights=True, recipe="4bit-gptq", out=tmp_path / "a.edgec", budgets=LOOSE)
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


@pytest.mark.slow
def test_two_and_a_half_bits_run_here_and_are_what_the_file_takes(tmp_path: Path) -> None:
    text = EXAMPLE / "held-out.txt"
    options: dict[str, Any] = {"target": "host", "context": 128, "budgets": LOOSE}
    bundle = edgec.export(EXAMPLE, recipe="4bit", target_bits=2.5, calibrate=text, out=tmp_path / "a.edgec", **options)
    search, ledger = read_manifest(bundle).bit_search, read_manifest(bundle).ledger
    assert search is not None and ledger is not None and len(search.layers) == 8 * 7
    rows = [row for row in ledger.rows if row.name.removesuffix("_int") in search.layers]
    average = 8 * sum(row.bytes for row in rows) / sum(row.values for row in rows)
    assert len(rows) == 8 * 7 and average == pytest.approx(search.bits) and 2.4 < average <= 2.5
    graph = ExportOptions(EXAMPLE, recipe=bundle / "recipe.toml", **options)
    prompt, session = [1, *range(30, 30 + PROMPT - 1)], Session(bundle)
    said = [int(session.prefill(prompt, 0).argmax())]
    for position in range(PROMPT, PROMPT + NEW_TOKENS - 1):
        said.append(int(session.prefill(said[-1:], position).argmax()))
    result, reason = compared_with_rounded_graph(graph, prompt, said, TIE)
    assert result == "equal", reason


def test_a_search_needs_text(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "model")
    with pytest.raises(InputError) as caught:
        edgec.export(folder, random_weights=True, target_bits=5, out=tmp_path / "a.edgec", budgets=LOOSE)
    assert caught.value.code == "E532"


@pytest.mark.parametrize("wrong", ["rotate", ["turn"], [1]])
def test_preparations_are_known(wrong: object) -> None:
    with pytest.raises(InputError) as caught:
        parse_recipe({"prepare": wrong}, "r", "")
    assert caught.value.code == "E171"
