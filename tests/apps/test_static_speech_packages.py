"""Swift packages of models that transcribe through Core ML: what they hold, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgec.apps.embed.embed import embed
from edgec.apps.embed.engine_sources import speech_functions, speech_sources
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import AppPackage, write_package
from edgec.bundle.entry_points import TensorInfo
from edgec.bundle.manifest import Manifest
from edgec.errors import InputError
from tests.apps.audio_bundles import MOONSHINE, fixed_audio_manifest, fixed_audio_placeholder
from tests.apps.ios_bundles import CHUNK, CONTEXT, with_method
from tests.apps.project_files import facts_of, renamed_in
from tests.apps.static_packages import assert_c_target, assert_included_alone
from tests.apps.swift_syntax import assert_sound
from tests.apps.swift_toolchain import Swift
from tests.apps.test_engine_project import text

OWN = {"EdgecTranscriber", "SpeechRuntime", "SpeechCoreML", "RuntimeCoreML", "EngineCall", "GoldenSpeech"}
ENGINE = {"SpeechEngine", "RuntimeEngine", "EngineSchema", "DecoderStatic", "EdgecModel"}


def package_of(folder: Path, manifest: Manifest | None = None) -> AppPackage:
    """The Swift package of a model that transcribes through Core ML."""
    return swift_package(fixed_audio_placeholder(folder / "bundle", manifest))


def refusal(folder: Path, manifest: Manifest) -> InputError:
    """Why a bundle gets no package."""
    with pytest.raises(InputError) as caught:
        package_of(folder, manifest)
    return caught.value


def test_the_package_holds_a_transcriber_over_core_ml(tmp_path: Path) -> None:
    package = package_of(tmp_path)
    assert_sound(package)
    held = {Path(path).stem for path in package.files if path.startswith(f"Sources/{package.module}/")}
    assert held >= OWN and not held & ENGINE
    assert not [path for path, content in package.files.items() if isinstance(content, bytes) and b"@@" in content]
    calls = text(package, f"Sources/{package.module}/SpeechCoreML.swift")
    assert "start + place + chunk <= SpeechFacts.slots" in calls
    apps = {Path(path).parts[0] for path in package.files}
    assert "Sample" in apps and "Bench" not in apps
    facts = facts_of(package)["speech"]
    assert (facts["windowSamples"], facts["goldenValues"]) == (16_000, 1600)


def test_the_c_target_has_the_sources_of_speech_under_names_of_its_own(tmp_path: Path) -> None:
    package = package_of(tmp_path)
    assert_c_target(package, speech_sources(), speech_functions(), ("SpeechRuntime", "SpeechCoreML"))
    # The struct's destructor has a name of its own as well; that of two packages would be merged.
    manifest = text(package, "Package.swift")
    assert "EdgecAudio" in renamed_in(package) and '"EdgecAudio"' in manifest


def test_speech_without_the_engine_includes_its_own_sources_alone() -> None:
    assert_included_alone(speech_sources())


def test_the_readme_says_what_runs_the_functions(tmp_path: Path) -> None:
    package = package_of(tmp_path)
    readme = text(package, "README.md")
    assert (
        "## AudioInput" in readme and "Core ML runs the functions `encode`, `cross`, `prefill` and `decode`" in readme
    )
    assert f"`Sources/{package.module}Engine` transcribes speech" in readme and "EdgecTranscriber.load()" in readme
    assert "ExecuTorch's branch" not in readme and "## Engine" not in readme


@pytest.mark.parametrize("name", ["window_positions", "token_types"])
def test_an_input_that_the_glue_does_not_feed_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    manifest = fixed_audio_manifest()
    odd = [*manifest.methods[2].inputs, TensorInfo(name=name, dtype="int32", shape=[1, 64])]
    found = refusal(tmp_path, with_method(manifest, "prefill", inputs=odd))
    assert found.code == "E464" and f"the method prefill reads {name}, which the Swift glue does not feed" in found.why


def test_functions_of_other_shapes_are_refused(tmp_path: Path) -> None:
    manifest = fixed_audio_manifest()
    encode, _, prefill, decode = manifest.methods
    (features,), (tokens, *others) = encode.inputs, decode.inputs
    wide = [tokens.model_copy(update={"shape": [1, 2]}), *others]
    assert manifest.encoder_decoder is not None
    key = TensorInfo(name="key_cache_0", dtype="float16", shape=[1, 2, CONTEXT, 32])
    samples = manifest.encoder_decoder.model_copy(update={"sound": None, "waveform": MOONSHINE.waveform})
    cases: dict[str, tuple[Manifest, str]] = {
        "half": (
            with_method(manifest, "encode", inputs=[features.model_copy(update={"dtype": "float16"})]),
            "in float32",
        ),
        "two": (with_method(manifest, "encode", inputs=[features, features]), "in float32"),
        "wide": (with_method(manifest, "decode", inputs=wide), "takes tokens [1, 2] where [1, 1] is fed"),
        "short": (with_method(manifest, "prefill", inputs=decode.inputs), f"where [1, {CHUNK}] is fed"),
        "forgetful": (with_method(manifest, "decode", inputs=decode.inputs[:-2]), "the method decode does not take"),
        "samples": (manifest.model_copy(update={"encoder_decoder": samples}), "this one reads samples"),
        "lent": (with_method(manifest, "decode", inputs=[*decode.inputs, key]), "holds the states key_cache_0"),
        "absent": (manifest.model_copy(update={"methods": [encode, prefill, decode]}), "it has the methods encode,"),
    }
    for name, (case, why) in cases.items():
        found = refusal(tmp_path / name, case)
        assert found.code == "E464" and why in found.why, (name, found.why)


@pytest.mark.parametrize("kind", ["pte", "aimodel"])
def test_other_formats_of_the_neural_engine_are_refused_with_the_way_out(kind: str, tmp_path: Path) -> None:
    found = refusal(tmp_path, fixed_audio_manifest(kind))
    assert found.code == "E464" and "apps transcribe with edgec's engine, or through Core ML" in found.why
    assert "--format mlpackage" in found.fix


def test_a_package_in_parts_is_refused_with_a_way_out_that_hears(tmp_path: Path) -> None:
    bundle = fixed_audio_placeholder(tmp_path / "bundle", fixed_audio_manifest(artifact="parts"))
    files = [file for file in bundle.manifest.files if file.path != "parts/Manifest.json"]
    manifest = bundle.manifest.model_copy(update={"files": files})
    with pytest.raises(InputError) as caught:
        swift_package(replace(bundle, manifest=manifest))
    assert caught.value.code == "E464" and "several" in caught.value.why and "for a CPU" in caught.value.fix


@pytest.mark.parametrize("rule", [{"min_length": 4}, {"repetition_penalty": 1.2}])
def test_rules_that_the_code_does_not_apply_are_refused(rule: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        swift_package(fixed_audio_placeholder(tmp_path / "bundle", **rule))
    assert caught.value.code == "E755" and next(iter(rule)) in caught.value.why


def test_embed_takes_such_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = fixed_audio_placeholder(tmp_path / "bundle")
    monkeypatch.setattr("edgec.apps.embed.embed.open_bundle", lambda path: bundle)
    assert (embed(bundle.path, "ios", tmp_path / "kit").path / "Package.swift").is_file()


@pytest.mark.slow
def test_the_swift_compiles_with_its_sample(swift: Swift, swift_folder: Path) -> None:
    package = package_of(swift_folder)
    write_package(package, swift_folder / "kit")
    headers = [swift_folder / "kit" / "Sources" / f"{package.module}Engine" / "include"]
    kit = sorted((swift_folder / "kit" / "Sources" / package.module).glob("*.swift"))
    assert swift.compile(package.module, kit, headers) == ""
    sample = sorted((swift_folder / "kit" / "Sample").rglob("*.swift"))
    assert swift.compile("EdgecTranscribe", sample, headers) == ""
