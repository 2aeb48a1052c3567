"""The bundle as Apple's coreai-models reads it, and both layouts from command to use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.apps.embed.embed import embed
from edgec.bundle.folder import open_bundle
from edgec.errors import InputError
from edgec.runtime_py.verify.verify import verify
from tests.families import FAMILIES, save

LAYOUTS = {"swift-transformers": "mlpackage", "coreai-models": "aimodel"}
KINDS = {"llm", "vlm", "diffusion", "segmenter", "speech_recognizer"}


def read_language_bundle(folder: Path) -> Mapping[str, Any]:
    """The ``language`` part, by the rules of ``ModelBundle``, ``LanguageBundle`` and ``LanguageConfig``."""
    described = json.loads((folder / "metadata.json").read_text())
    assert described["metadata_version"] == "0.2"
    assert described["kind"] in KINDS and described["kind"] == "llm"
    assert isinstance(described["name"], str) and described["name"]
    assert all(isinstance(value, str) for value in described.get("user_data", {}).values())
    assets = described["assets"]
    assert all(isinstance(value, str) and (folder / value).exists() for value in assets.values())
    # EngineFactory's validation of the main asset.
    assert assets["main"].endswith(".aimodel")
    language: Mapping[str, Any] = described["language"]
    assert isinstance(language["tokenizer"], str)
    assert all(isinstance(language[key], int) and language[key] > 0 for key in ("vocab_size", "max_context_length"))
    assert all(isinstance(names, list) and names for names in language.get("function_map", {}).values())
    if language.get("embedded_tokenizer", True):
        assert (folder / "tokenizer" / "tokenizer.json").is_file()
    return language


@pytest.fixture(scope="module")
def bundle(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("coreai_torch")
    out = tmp_path_factory.mktemp("layouts") / "x.edgec"
    return edgec.export(
        tiny_folder, target="iphone", format="aimodel", layout="coreai-models", recipe="float", context=80, out=out
    )


@pytest.mark.slow
def test_the_folder_is_a_language_bundle(bundle: Path) -> None:
    language = read_language_bundle(bundle)
    manifest = open_bundle(bundle).manifest
    assert language["max_context_length"] == 80 == manifest.limits.context  # type: ignore[union-attr]
    assert language["vocab_size"] == manifest.model.vocab_size
    assert language["function_map"] == {"main": ["main"]}
    assert "metadata.json" in {file.path for file in manifest.files}
    assert "/" not in json.loads((bundle / "metadata.json").read_text())["language"]["tokenizer"]


@pytest.mark.long
def test_the_bundle_verifies_generates_and_is_not_embedded(bundle: Path, tmp_path: Path) -> None:
    rungs = open_bundle(bundle).manifest.parity
    assert rungs[-1].stage == "whole prompt" or rungs[-1].stage == "artifact"
    assert all(rung.passed for rung in rungs)
    assert verify(bundle).passed
    assert len(edgec.load(bundle).generate([3, 4, 5], max_new_tokens=4).tokens) == 4
    with pytest.raises(InputError, match="E859"):
        embed(bundle, "ios", out=tmp_path / "app")


@pytest.mark.long
def test_a_package_for_swift_transformers_goes_from_command_to_use(tiny_folder: Path, tmp_path: Path) -> None:
    """A context of several chunks has the whole prompt as a rung of its own."""
    out = tmp_path / "x.edgec"
    options: dict[str, Any] = {"target": "iphone", "format": "mlpackage", "recipe": "8bit", "context": 200, "out": out}
    edgec.export(tiny_folder, layout="swift-transformers", budgets={"kl_mean": 5.0, "top1_agreement": 0.0}, **options)
    manifest = open_bundle(out).manifest
    assert manifest.layout == "swift-transformers" and [method.name for method in manifest.methods] == ["main"]
    assert [(state.name, state.slots) for state in manifest.states] == [("keyCache", 200), ("valueCache", 200)]
    assert manifest.parity[-1].stage == "whole prompt"
    assert not (out / "metadata.json").exists()
    about = _about(out / "model.mlpackage")
    assert about.userDefined["edgec_context"] == "200" and about.userDefined["edgec_layout"] == "swift-transformers"
    listed = {file.path: file.sha256 for file in manifest.files}
    weights = next(path for path in listed if path.endswith("weight.bin"))
    assert about.userDefined["edgec_weights_sha256"] == listed[weights]
    assert len(edgec.load(out).generate([3, 4, 5], max_new_tokens=70).tokens) <= 70


def _about(package: Path) -> Any:
    from edgec.backends.coreml.interpreter.proto import read_spec

    return read_spec(package).description.metadata


@pytest.mark.long
@pytest.mark.parametrize(("layout", "format"), LAYOUTS.items())
def test_models_that_are_not_decoders_are_refused_before_work(layout: str, format: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="E857"):
        edgec.export(
            "tests.exporter.module_factories:double",
            target="iphone",
            format=format,
            layout=layout,
            out=tmp_path / "x.edgec",
        )


@pytest.mark.long
def test_layers_of_different_heads_are_refused_before_conversion(tmp_path: Path) -> None:
    model = save(next(family for family in FAMILIES if family.name == "gemma4_text"), tmp_path / "model")
    options: dict[str, Any] = {"target": "iphone", "format": "mlpackage", "recipe": "float", "context": 128}
    with pytest.raises(InputError, match="E858"):
        edgec.export(model, layout="swift-transformers", out=tmp_path / "x.edgec", **options)
