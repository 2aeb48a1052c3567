"""App packages of models that transcribe: what they hold on both platforms, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgec.apps.embed.embed import embed
from edgec.apps.embed.engine_sources import engine_functions, engine_sources
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import AppPackage
from edgec.bundle.entry_points import EncoderDecoderInfo
from edgec.bundle.folder import Bundle
from edgec.engine.compile.build import SOURCES
from edgec.errors import InputError
from tests.apps.android_bundles import android_bundle
from tests.apps.audio_bundles import (
    CONFIG,
    MOONSHINE,
    READER,
    TIMED_CONFIG,
    WHISPER,
    audio_placeholder,
)
from tests.apps.project_files import facts_of, renamed_in
from tests.apps.swift_syntax import assert_sound
from tests.apps.test_engine_project import CPP, OWN, kotlin, text
from tests.apps.test_gradle_encoder import DECLARED

KINDS: Mapping[str, tuple[EncoderDecoderInfo, dict[str, Any]]] = {
    "whisper": (WHISPER, TIMED_CONFIG),
    "moonshine": (MOONSHINE, CONFIG),
}
MAKE: Mapping[str, tuple[Callable[[Bundle], AppPackage], str]] = {
    "android": (gradle_modules, "android-cpu"),
    "ios": (swift_package, "iphone-16-pro-cpu"),
}


def package_of(folder: Path, platform: str, kind: str = "whisper", **config: Any) -> AppPackage:
    """The package of a bundle that takes audio."""
    (info, own), (make, target) = KINDS[kind], MAKE[platform]
    return make(audio_placeholder(folder / "bundle", target, info, {**own, **config}))


def named(package: AppPackage) -> set[str]:
    """The names of the package's files."""
    return {Path(path).name for path in package.files}


def test_the_gradle_module_holds_the_transcriber_and_no_bench_app(tmp_path: Path) -> None:
    package = package_of(tmp_path, "android")
    own = {"EdgecTranscriber.kt", "Transcript.kt", "SpeechFacts.kt", "SpeechRuntime.kt", "GoldenSpeech.kt"}
    assert own | {"NativeEngine.kt", "Tokenizer.kt", "edgec_speech_jni.cpp", "edgec_jni.h"} <= named(package)
    assert not named(package) & {"EdgecModel.kt", "Session.kt", "Sampling.kt", "edgec_jni.cpp", "EngineSchemas.kt"}
    assert not [path for path in package.files if path.startswith(("bench/", "buildSrc/"))]
    assert not [path for path, content in package.files.items() if isinstance(content, bytes) and b"@@" in content]
    readme = text(package, "README.md")
    assert "android.permission.RECORD_AUDIO" in readme and "`de`, `en`" in readme and "the model's timestamps" in readme


def test_the_project_compiles_the_sources_of_speech(tmp_path: Path) -> None:
    package = package_of(tmp_path, "android")
    project = text(package, f"{CPP}/values.cmake")
    assert 'set(EDGEC_PARTS "audio")' in project
    listed = {path.removeprefix(f"{CPP}/edgec/") for path in package.files if path.startswith(f"{CPP}/edgec/")}
    assert {f"audio/{path.name}" for path in (SOURCES / "audio").glob("*.cpp")} < listed
    assert "edgec_speech_jni.cpp" in project and "edgec_jni.cpp" not in project
    carried = {path.removeprefix(f"{CPP}/edgec/") for path in package.files if path.startswith(f"{CPP}/edgec/")}
    assert carried == {*engine_sources(audio=True), "CMakeLists.txt"}
    for name in carried:
        included = re.findall(r'^#include "((?:audio|core|vision)/[^"]+)"', _source(name), re.MULTILINE)
        assert set(included) <= carried, name


def _source(name: str) -> str:
    return (SOURCES / name).read_text(encoding="utf-8")


def test_kotlin_c_and_r8_name_the_same_functions_and_exceptions(tmp_path: Path) -> None:
    package = package_of(tmp_path, "android")
    native = text(package, f"{CPP}/edgec_speech_jni.cpp")
    declared = set(re.findall(r"external fun (\w+)\(", kotlin(package, "NativeEngine")))
    assert declared == set(re.findall(r"EDGEC_JNI\(\w+, (\w+)\)\(", native)) and "beginFile" in declared
    thrown = set(re.findall(r'return "(\w+)";', native))
    assert len(thrown) == 7 and thrown <= set(
        re.findall(r"^class (\w+)\(", kotlin(package, "Transcript"), re.MULTILINE)
    )
    rules = text(package, "model/consumer-rules.pro").splitlines()
    for name in ("NativeEngine", "EngineFailed", *thrown):
        assert f"-keep class {package.module}.{name} {{ *; }}" in rules


@pytest.mark.parametrize("kind", KINDS)
def test_facts_come_from_the_bundle(kind: str, tmp_path: Path) -> None:
    window, stamps, values = {"whisper": (16_000, True, 1600), "moonshine": (480_000, False, 1279)}[kind]
    for platform in ("android", "ios"):
        facts = facts_of(package_of(tmp_path, platform, kind))["speech"]
        assert (facts["windowSamples"], facts["hasTimestamps"]) == (window, stamps)
        assert (facts["goldenValues"], facts["samplingRate"]) == (values, 16_000)


def test_no_file_names_what_only_language_models_have(tmp_path: Path) -> None:
    """Files that all modules share would not compile here; the Kotlin compiler that tells so is not everywhere."""
    own = _kotlin(package_of(tmp_path, "android"))
    others = _kotlin(gradle_modules(android_bundle(tmp_path / "decoder", OWN)))
    declared, absent = ({name for text in files.values() for name in DECLARED.findall(text)} for files in (own, others))
    absent -= declared
    assert {"FinishReason", "ModelSchema", "ModelRuntime", "Session"} <= absent
    words = {name: absent & set(re.findall(r"\w+", text)) for name, text in own.items()}
    assert not {name: found for name, found in words.items() if found}


def _kotlin(package: AppPackage) -> dict[str, str]:
    sources = [(Path(path).name, content) for path, content in package.files.items() if path.endswith(".kt")]
    comment = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
    return {name: comment.sub("", bytes(content).decode()) for name, content in sources if isinstance(content, bytes)}


def test_the_swift_package_has_the_engine_with_speech_under_names_of_its_own(tmp_path: Path) -> None:
    package = package_of(tmp_path, "ios")
    assert_sound(package)
    folder, module = f"Sources/{package.module}", package.module
    assert {f"{folder}/{name}.swift" for name in ("EdgecTranscriber", "EngineCall", "SpeechEngine")} <= set(
        package.files
    )
    assert not named(package) & {"EdgecModel.swift", "EdgecModule.swift", "RuntimeEngine.swift", "EngineSchema.swift"}
    header = text(package, f"{folder}Engine/include/{module}Engine.h")
    assert '#include "../edgec/include/edgec/audio.h"' in header
    renamed = {name: here for name, here in renamed_in(package).items() if name.startswith("edgec_")}
    assert set(renamed) == set(engine_functions(audio=True)) > set(engine_functions())
    sources = (text(package, f"{folder}/{name}.swift") for name in ("SpeechRuntime", "SpeechEngine"))
    called = set(re.findall(rf"{module}_\w+", "".join(sources)))
    assert called <= set(renamed.values()) and len(called) == 9
    readme = text(package, "README.md")
    assert "NSMicrophoneUsageDescription" in readme and "EdgecTranscriber.load()" in readme
    assert not [path for path, content in package.files.items() if isinstance(content, bytes) and b"@@" in content]


def test_both_platforms_throw_for_every_status_of_the_engine(tmp_path: Path) -> None:
    header = _source("include/edgec/audio.h")
    stated = header.partition("enum EdgecAudioStatus {")[2].partition("};")[0]
    statuses = set(re.findall(r"^  (EDGEC_\w+) = \d+,", stated, re.MULTILINE))
    package = package_of(tmp_path, "ios")
    swift = text(package, f"Sources/{package.module}/SpeechRuntime.swift")
    native = text(package_of(tmp_path, "android"), f"{CPP}/edgec_speech_jni.cpp")
    assert len(statuses) == 7
    assert statuses <= set(re.findall(r"case (EDGEC_\w+):", swift)) & set(re.findall(r"case (EDGEC_\w+):", native))


@pytest.mark.parametrize("platform", MAKE)
@pytest.mark.parametrize(
    "rule",
    [
        {"bad_words_ids": [[5]]},
        {"forced_bos_token_id": 3},
        {"forced_eos_token_id": 3},
        {"min_length": 4},
        {"no_repeat_ngram_size": 3},
        {"repetition_penalty": 1.2},
    ],
)
def test_rules_that_the_engine_does_not_apply_are_refused(platform: str, rule: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        package_of(tmp_path, platform, **rule)
    assert caught.value.code == "E755" and next(iter(rule)) in caught.value.why
    assert next(iter(rule)) in _source("audio/audio_facts.cpp")


def test_rules_that_ask_for_nothing_are_not(tmp_path: Path) -> None:
    asks_nothing: dict[str, Any] = {"min_length": 0, "no_repeat_ngram_size": 0, "repetition_penalty": 1.0}
    assert package_of(tmp_path, "android", **asks_nothing, bad_words_ids=[]).module


@pytest.mark.parametrize("platform", MAKE)
def test_a_bundle_without_tokenizer_or_edgecs_kernels_is_refused(platform: str, tmp_path: Path) -> None:
    make, target = MAKE[platform]
    whole = audio_placeholder(tmp_path / "a", target, WHISPER, TIMED_CONFIG)
    files = [file for file in whole.manifest.files if not file.path.startswith("tokenizer/")]
    for each, code in (
        (replace(whole, manifest=whole.manifest.model_copy(update={"files": files})), "E462"),
        (audio_placeholder(tmp_path / "b", target, WHISPER, TIMED_CONFIG, artifact=b"XnnpackBackend"), "E464"),
    ):
        with pytest.raises(InputError) as caught:
            make(each)
        assert caught.value.code == code


@pytest.mark.parametrize(("info", "code"), [(READER, "E535"), (WHISPER, None)])
def test_only_encoder_decoders_that_read_text_are_still_refused(
    info: EncoderDecoderInfo, code: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = audio_placeholder(tmp_path / "bundle", "android-cpu", info, TIMED_CONFIG)
    monkeypatch.setattr("edgec.apps.embed.embed.open_bundle", lambda path: bundle)
    if code is None:
        assert embed(bundle.path, "android", tmp_path / "kit").path.is_dir()
        return
    with pytest.raises(InputError) as caught:
        embed(bundle.path, "android", tmp_path / "kit")
    assert caught.value.code == code
