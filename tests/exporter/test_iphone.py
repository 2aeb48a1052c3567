"""``edgec export --target iphone`` end to end, on models of a few kilobytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.bundle.findings import Rung
from edgec.bundle.folder import open_bundle
from edgec.bundle.manifest import Manifest
from edgec.errors import BudgetError, InputError
from edgec.exporter.parity import ladder
from edgec.runtime_py.verify.verify import verify

pytestmark = pytest.mark.long

# Random weights are rounded worse than trained ones: quality is not judged, lowering is.
LOOSE = {"kl_mean": 5.0, "top1_agreement": 0.0}
FORMATS = {"mlpackage": "model.mlpackage", "pte": "model.pte", "aimodel": "model.aimodel"}


@pytest.fixture(scope="module")
def package(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("iphone") / "tiny-iphone.edgec"
    return edgec.export(tiny_folder, target="iphone", format="mlpackage", recipe="float", context=128, out=out)


def test_a_bundle_holds_the_package_and_its_methods(package: Path) -> None:
    manifest = open_bundle(package).manifest
    assert (manifest.format, manifest.artifact) == ("mlpackage", "model.mlpackage")
    assert [method.name for method in manifest.methods] == ["prefill", "decode"]
    assert {tensor.name for tensor in manifest.methods[0].inputs} == {"tokens", "start", "last"}
    assert {state.dtype for state in manifest.states} == {"float16"}
    assert all(state.shape[-1] % 32 == 0 for state in manifest.states)


def test_the_ladder_ends_with_the_executed_artifact(package: Path) -> None:
    rungs = open_bundle(package).manifest.parity
    assert [rung.stage for rung in rungs[-2:]] == ["static methods", "artifact"]
    assert rungs[-1].top1_agreement == 1.0
    assert "simulated" in rungs[-1].note
    assert rungs[-1].positions > 10


def test_the_bundle_verifies_and_generates(package: Path) -> None:
    assert verify(package).passed
    assert len(edgec.load(package).generate([3, 4, 5], max_new_tokens=4).tokens) == 4


def test_an_artifact_with_a_permuted_weight_is_caught(package: Path, tmp_path: Path) -> None:
    manifest = open_bundle(package).manifest
    copy = tmp_path / "model.mlpackage"
    shutil.copytree(package / manifest.artifact, copy)
    weights = copy / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    raw = bytearray(weights.read_bytes())
    middle = len(raw) // 2
    raw[middle : middle + 512], raw[middle + 512 : middle + 1024] = (
        raw[middle + 512 : middle + 1024],
        raw[middle : middle + 512],
    )
    weights.write_bytes(raw)
    with pytest.raises(BudgetError, match="E201"):
        ladder.gate([_compared(package, copy, manifest)])


def _compared(package: Path, copy: Path, manifest: Manifest) -> Rung:
    """The intact package against the changed one, on seeded tokens."""
    from edgec.backends.coreml.mlpackage import execute
    from edgec.ir.call_plan import static_plan
    from edgec.ir.static_methods import run_static

    tokens = list(range(1, 100))
    plan = static_plan(len(tokens), manifest.limits.prefill_chunk if manifest.limits else 64)
    one, other = (run_static(execute(path), tokens, plan) for path in (package / manifest.artifact, copy))
    return ladder.lowering_rung(
        ladder.Stage("intact", one), ladder.Stage("changed", other), {"max_relative": 1e-4, "top1_agreement": 1.0}
    )


@pytest.mark.slow
@pytest.mark.parametrize("format", ["pte", "aimodel"])
def test_other_formats_end_to_end(format: str, tiny_folder: Path, tmp_path: Path) -> None:
    bundle = edgec.export(
        tiny_folder, target="iphone", format=format, recipe="float", context=128, out=tmp_path / "x.edgec"
    )
    manifest = open_bundle(bundle).manifest
    assert manifest.artifact == FORMATS[format]
    assert manifest.parity[-1].top1_agreement == 1.0
    assert verify(bundle).passed


@pytest.mark.slow
@pytest.mark.parametrize("format", ["mlpackage", "aimodel"])
def test_random_weights_of_few_bits_keep_a_budget_of_their_own(format: str, tiny_folder: Path, tmp_path: Path) -> None:
    """Random weights let the rounding of float16 grow beyond what trained ones are held to."""
    where: dict[str, Any] = {"target": "iphone", "format": format, "recipe": "4bit", "context": 256}
    bundle = edgec.export(tiny_folder, **where, budgets=LOOSE, out=tmp_path / "x.edgec")
    (artifact,) = _lowered(bundle)
    assert artifact.passed and artifact.budget == ladder.UNTRAINED_HALF_LOWERING and "untrained" in artifact.note


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["lut4", "int4-channel"])
def test_compressed_weights_end_to_end(recipe: str, tiny_folder: Path, tmp_path: Path) -> None:
    where: dict[str, Any] = {"target": "iphone", "format": "mlpackage", "recipe": recipe, "context": 128}
    bundle = edgec.export(tiny_folder, **where, budgets=LOOSE, out=tmp_path / "x.edgec")
    (artifact,) = _lowered(bundle)
    assert artifact.gated and artifact.passed and artifact.budget["kl_mean"] <= 1e-3
    assert verify(bundle).passed


def _lowered(bundle: Path) -> list[Rung]:
    """The rungs that compare the artifact with its graph."""
    rungs = open_bundle(bundle).manifest.parity
    return [rung for rung in rungs if (rung.stage, rung.half) == ("artifact", "lowering")]


def test_what_static_methods_cannot_do_is_refused_at_once(tiny_folder: Path, tmp_path: Path) -> None:
    prompt = tmp_path / "system.txt"
    prompt.write_text("You are Lily.")
    with pytest.raises(InputError, match="E402"):
        edgec.export(tiny_folder, target="iphone", system_prompt=prompt, out=tmp_path / "x.edgec")


def test_a_format_that_the_unit_lacks_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="E403") as caught:
        edgec.export(tiny_folder, target="host", format="aimodel", out=tmp_path / "x.edgec")
    assert json.dumps(caught.value.to_json())


@pytest.mark.slow
def test_a_model_with_tied_tables_in_several_packages(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedding's table serves the logits too: it lies in the first package and in the last one."""
    from edgec.backends.coreml import mlpackage
    from tests.runtime_py.tiny_decoder import tiny_tokenizer
    from tests.tiny_llama import tiny_llama

    model = tiny_llama()
    model.config.tie_word_embeddings = True
    model.tie_weights()
    folder = tmp_path_factory.mktemp("tied")
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    monkeypatch.setattr(mlpackage, "PART_BYTES", 48_000)
    bundle = edgec.export(
        folder, target="iphone", format="mlpackage", recipe="float", context=128, out=tmp_path / "x.edgec"
    )
    parts = mlpackage.packages(bundle / "model.mlpackage")
    assert len(parts) > 1
    rung = open_bundle(bundle).manifest.parity[-1]
    assert rung.stage == "artifact" and rung.passed and rung.top1_agreement == 1.0
    assert verify(bundle).passed
