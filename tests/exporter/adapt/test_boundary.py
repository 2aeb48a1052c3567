"""An open boundary: chosen within the limit, refused where text is missing, kept in the record."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import edgec
from edgec.bundle.folder import read_manifest
from edgec.errors import InputError
from edgec.exporter.adapt import boundary as module
from edgec.exporter.adapt.adapt import adapt
from edgec.exporter.adapt.boundary import choose_boundary
from edgec.exporter.adapt.settings import Settings
from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.recipes.adapt_record import as_recorded, record_of
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.recipes.text import recipe_text
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.ir.program import Program
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import run_pass
from edgec.passes.kv.shared_kv import SharedKv
from tests.families import build, empty_model
from tests.passes.decoders import StateDict
from tests.passes.deep_decoders import MODELS

OPEN = Recipe("open", shared_kv="reuse", boundary="auto")
ROWS = [torch.arange(5, 45), torch.arange(45, 5, -1)]
FILE = """
[shared_kv]
mode = "reuse"
boundary = "auto"
max_kl = 100.0

[limits]
context = 96
prefill_chunk = 16
logit_rows = 8
"""


def whole(name: str) -> Program:
    """Four layers, logits of every position."""
    family = MODELS[name]
    skeleton = build_skeleton(empty_model(family.config()))
    spec = model_spec(family.config().to_dict())
    return run_pass(capture_decoder(skeleton, spec, StateDict(build(family, "eager")), 64), RemoveNoops())


@pytest.fixture(scope="module")
def program() -> Program:
    return whole("llama")


def divergences(program: Program) -> dict[int, float]:
    """KL of every boundary, by softmax alone."""
    measured = {}
    with torch.no_grad():
        for kept in range(1, 4):
            shared = run_pass(program, SharedKv(kept))
            parts = []
            for row in ROWS:
                place = torch.arange(len(row))
                p, q = (_first(each.graph(row[None], place)).softmax(-1) for each in (program, shared))
                parts.append((p * (p.log() - q.log())).sum(-1))
            measured[kept] = float(torch.cat(parts, -1).mean())
    return measured


def _first(output: object) -> torch.Tensor:
    value = output[0] if isinstance(output, (tuple, list)) else output
    assert isinstance(value, torch.Tensor)
    return value.double()


@pytest.mark.long
def test_the_result_keeps_within_the_limit_and_one_layer_fewer_does_not(program: Program) -> None:
    every = divergences(program)
    for limit in (nats * 1.01 for nats in every.values()):
        if every[3] > limit:
            continue
        chosen = choose_boundary(program, replace(OPEN, boundary_kl=limit), ROWS)
        assert every[chosen.kept] <= limit
        assert chosen.kept == 1 or every[chosen.kept - 1] > limit
        # float32 sums in another order
        assert chosen.measured[chosen.kept] == pytest.approx(every[chosen.kept], rel=1e-3, abs=1e-6)
        assert f"{chosen.kept} of 4" in str(chosen)


@pytest.mark.long
def test_few_boundaries_are_measured(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def made_up(original: Program, shared: Program, rows: object) -> float:
        assert shared.spec is not None
        asked.append(sum(layer.kv_donor is None for layer in shared.spec.layers))
        return 10.0 - asked[-1]

    monkeypatch.setattr(module, "_divergence", made_up)
    assert choose_boundary(program, replace(OPEN, boundary_kl=8.0), ROWS).kept == 2
    assert len(asked) == 3


def test_a_limit_that_nothing_keeps_is_refused(program: Program) -> None:
    with pytest.raises(InputError) as caught:
        choose_boundary(program, replace(OPEN, boundary_kl=1e-12), ROWS)
    assert caught.value.code == "E511" and "3 of 4" in str(caught.value.why)


@pytest.mark.long
def test_layers_without_a_donor_are_passed_over() -> None:
    chosen = choose_boundary(whole("gemma3"), replace(OPEN, boundary_kl=1e9), ROWS)
    assert chosen.kept == 2


def test_the_recipe_says_so(tmp_path: Path) -> None:
    file = tmp_path / "open.toml"
    file.write_text(FILE)
    recipe = load_recipe(file)
    assert (recipe.boundary, recipe.boundary_kl) == ("auto", 100.0)
    again = tmp_path / "again" / "open.toml"
    again.parent.mkdir()
    again.write_text(recipe_text(recipe))
    assert load_recipe(again) == recipe
    for wrong in ('boundary = "most"', 'boundary = "auto"\nmax_kl = 0'):
        file.write_text(f"[shared_kv]\n{wrong}\n")
        with pytest.raises(InputError) as caught:
            load_recipe(file)
        assert caught.value.code == "E171"


def test_a_trained_boundary_answers_an_open_one() -> None:
    config = {"num_hidden_layers": 8, "edgec": {"mode": "reuse", "boundary": 3}}
    assert as_recorded(OPEN, config).boundary == 3
    with pytest.raises(InputError) as caught:
        as_recorded(replace(OPEN, shared_kv="project"), config)
    assert caught.value.code == "E505"


@pytest.mark.slow
def test_adapt_chooses_and_records(tiny_folder: Path, story: Path, tmp_path: Path) -> None:
    file = tmp_path / "open.toml"
    file.write_text(FILE)
    settings = Settings(steps=1, batch=2, length=32, held_out_tokens=64)
    done = adapt(tiny_folder, recipe=file, text=[story], out=tmp_path / "healed", settings=settings)
    record = record_of(json.loads((done.path / "config.json").read_text()))
    assert record is not None and record.boundary == 1
    assert "1 of 2 layers" in json.loads((done.path / "training.json").read_text())["facts"]["boundary"]


@pytest.mark.slow
@pytest.mark.long
def test_an_export_chooses_on_text_that_it_makes(tiny_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "open.toml"
    file.write_text(FILE)
    manifest = read_manifest(edgec.export(tiny_folder, recipe=file, out=tmp_path / "a.edgec"))
    assert manifest.calibration is not None and manifest.calibration.built_in > 0
    assert {state.layer for state in manifest.states} < {0, 1}


@pytest.mark.slow
def test_an_export_chooses_on_its_calibration_text(tiny_folder: Path, story: Path, tmp_path: Path) -> None:
    file = tmp_path / "open.toml"
    file.write_text(FILE)
    manifest = read_manifest(edgec.export(tiny_folder, recipe=file, calibrate=story, out=tmp_path / "a.edgec"))
    assert {state.layer for state in manifest.states} == {0}
