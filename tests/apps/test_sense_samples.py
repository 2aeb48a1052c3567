"""The samples of models that see and hear: what they hold, and that they compile over stand-ins."""

from __future__ import annotations

import plistlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import AppPackage, write_package
from edgec.bundle.folder import Bundle
from tests.apps.android_bundles import CPU, android_bundle
from tests.apps.audio_bundles import TIMED_CONFIG, WHISPER, audio_placeholder
from tests.apps.ios_bundles import bundle_of, decoder_manifest
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled
from tests.apps.swift_syntax import assert_sound
from tests.apps.swift_toolchain import Swift
from tests.apps.test_engine_project import text
from tests.apps.vision_app_bundles import TEMPLATE, vision_placeholder

SENSES = ("sees", "sees, no chat", "sound")
MAKE: Mapping[str, tuple[Callable[[Bundle], AppPackage], str]] = {
    "android": (gradle_modules, "android-cpu"),
    "ios": (swift_package, "iphone-16-pro-cpu"),
}
CHAT, TRANSCRIBE = {"ChatModel", "ChatScreen"}, {"Microphone", "TranscribeModel", "TranscribeScreen"}


def package_of(folder: Path, platform: str, sense: str) -> AppPackage:
    """The package of a bundle that takes images or audio."""
    make, target = MAKE[platform]
    if sense == "sound":
        return make(audio_placeholder(folder / "bundle", target, WHISPER, TIMED_CONFIG))
    return make(vision_placeholder(folder / "bundle", target, template=TEMPLATE if sense == "sees" else ""))


def sample(package: AppPackage) -> set[str]:
    """The names of the sample's sources."""
    code = (".kt", ".swift")
    return {Path(path).stem for path in package.files if path.lower().startswith("sample/") and path.endswith(code)}


@pytest.mark.parametrize("sense", SENSES)
def test_the_sample_in_kotlin_chooses_pictures_or_records(sense: str, tmp_path: Path) -> None:
    package = package_of(tmp_path, "android", sense)
    own = (
        {"ChatActivity", *CHAT, "Pictures", "PictureButton"}
        if sense != "sound"
        else {"TranscribeActivity", *TRANSCRIBE}
    )
    assert sample(package) == own
    assert not [path for path, content in package.files.items() if isinstance(content, bytes) and b"@@" in content]
    manifest = text(package, f"sample/src/{'transcribe' if sense == 'sound' else 'chat'}/AndroidManifest.xml")
    assert ("android.permission.RECORD_AUDIO" in manifest) == (sense == "sound")
    assert f'".{next(name for name in own if name.endswith("Activity"))}"' in manifest
    modules = "model,sample" if sense == "sound" else "model,bench,sample"
    assert f"\nedgecModules={modules}\n" in text(package, "gradle.properties")


@pytest.mark.parametrize("sense", SENSES)
def test_the_sample_in_swift_chooses_pictures_or_records(sense: str, tmp_path: Path) -> None:
    package = package_of(tmp_path, "ios", sense)
    assert_sound(package)
    audio = sense == "sound"
    app, names = ("Transcribe", TRANSCRIBE) if audio else ("Chat", CHAT | {"Pictures", "PictureButton"})
    assert sample(package) == {f"{app}App", "SystemEvents", *names}
    assert not [path for path, content in package.files.items() if isinstance(content, bytes) and b"@@" in content]
    project = plistlib.loads(package.files[f"Sample/Edgec{app}.xcodeproj/project.pbxproj"])  # type: ignore[arg-type]
    settings = [each["buildSettings"] for each in project["objects"].values() if "buildSettings" in each]
    asks = any("INFOPLIST_KEY_NSMicrophoneUsageDescription" in each for each in settings)
    assert asks == audio and any(path.startswith("Bench/") for path in package.files) == (not audio)


def test_a_model_without_senses_has_neither_pictures_nor_a_microphone(tmp_path: Path) -> None:
    android = gradle_modules(android_bundle(tmp_path / "a", CPU))
    ios = swift_package(bundle_of(decoder_manifest("pte-cpu"), tmp_path / "b"))
    for package in (android, ios):
        assert not sample(package) & TRANSCRIBE
        code = [str(content) for path, content in package.files.items() if path.lower().startswith("sample/")]
        assert not [each for each in code if "ModelImage" in each or "RECORD_AUDIO" in each or "Microphone" in each]


@pytest.mark.slow
@WITH_KOTLIN
@pytest.mark.parametrize("sense", SENSES)
def test_the_kotlin_compiles_with_its_sample(sense: str, tmp_path: Path) -> None:
    write_package(package_of(tmp_path, "android", sense), tmp_path / "out")
    sources = [*sorted(STAND_INS.rglob("*.kt")), *sorted((tmp_path / "out").rglob("*.kt"))]
    assert any("sample" in path.parts for path in sources)
    compiled(sources, tmp_path / "classes")


@pytest.mark.slow
@pytest.mark.parametrize("sense", SENSES)
def test_the_swift_compiles_with_its_sample(sense: str, swift: Swift, swift_folder: Path) -> None:
    package = package_of(swift_folder, "ios", sense)
    write_package(package, swift_folder / "kit")
    headers = [swift_folder / "kit" / "Sources" / f"{package.module}Engine" / "include"]
    kit = sorted((swift_folder / "kit" / "Sources" / package.module).glob("*.swift"))
    assert swift.compile(package.module, kit, headers) == ""
    apps = {"EdgecSample": "Sample", **({} if sense == "sound" else {"EdgecBench": "Bench"})}
    for name, folder in apps.items():
        assert swift.compile(name, sorted((swift_folder / "kit" / folder).rglob("*.swift")), headers) == ""
