"""App packages of models that see: what they hold, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.apps.embed.embed import embed
from edgec.apps.embed.engine_sources import engine_functions, engine_sources
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import AppPackage
from edgec.bundle.folder import Bundle
from edgec.bundle.image_preparation import MAX_PIXELS, MAX_RATIO, PreparationFile
from edgec.engine.compile.build import SOURCES
from edgec.errors import InputError
from tests.apps.android_bundles import android_bundle
from tests.apps.ios_bundles import bundle_of, decoder_manifest
from tests.apps.project_files import facts_of, renamed_in
from tests.apps.swift_syntax import assert_sound, sources
from tests.apps.test_engine_project import CPP, OWN, kotlin, text
from tests.apps.vision_app_bundles import PREPARED, TEMPLATE, vision_placeholder

IMAGES = {"Images.kt", "ImageReader.kt", "ImageHeader.kt", "Vision.kt", "VisionFacts.kt", "NativeVision.kt"}
SWIFT = {f"{name}.swift" for name in ("Images", "ImageReader", "ImageDecoder", "ImageHeader", "Vision", "VisionFacts")}


def swift_of(folder: Path, prepared: PreparationFile | None = PREPARED, template: str = TEMPLATE) -> AppPackage:
    """The Swift package of a bundle that takes images."""
    return swift_package(vision_placeholder(folder / "bundle", "iphone-16-pro-cpu", prepared, template=template))


def swift(package: AppPackage, name: str) -> str:
    """A source of the package's own module."""
    return text(package, f"Sources/{package.module}/{name}.swift")


def package_of(folder: Path, prepared: PreparationFile | None = PREPARED, template: str = TEMPLATE) -> AppPackage:
    """The Gradle modules of a bundle that takes images."""
    return gradle_modules(vision_placeholder(folder / "bundle", "android-cpu", prepared, template=template))


def named(package: AppPackage) -> set[str]:
    """The names of the package's files."""
    return {Path(path).name for path in package.files}


def assert_vision_facts(package: AppPackage) -> None:
    """Assert that the package has the facts of the sample's images."""
    facts = facts_of(package)
    vision = facts["vision"]
    assert (vision["mostPixels"], vision["mostRatio"], vision["placeholder"]) == (MAX_PIXELS, MAX_RATIO, "<image>")
    assert (vision["tileTokens"], vision["goldenValues"], facts["decoder"]["context"]) == (4, 192, 64)
    assert "start image" in facts["replies"]["plain"][0]["joins"]


def test_the_gradle_module_holds_a_language_model_with_vision(tmp_path: Path) -> None:
    package = package_of(tmp_path)
    assert IMAGES | {"EdgecModel.kt", "Session.kt", "edgec_jni.cpp", "edgec_vision_jni.cpp"} <= named(package)
    assert "edgec_speech_jni.cpp" not in named(package) and "BenchActivity.kt" in named(package)
    assert not [path for path, content in package.files.items() if isinstance(content, bytes) and b"@@" in content]
    assert_vision_facts(package)
    assert "vision.place(prompt)" in kotlin(package, "Session")


def test_the_swift_package_holds_a_language_model_with_vision(tmp_path: Path) -> None:
    package = swift_of(tmp_path)
    assert_sound(package)
    held = named(package)
    assert SWIFT | {
        "EdgecModel.swift",
        "VisionSession.swift",
        "VisionDecoder.swift",
        "EdgecBench.xcodeproj",
    } <= held | {Path(path).parent.name for path in package.files}
    assert not held & {"Session.swift", "DecoderDynamic.swift", "EdgecTranscriber.swift"}
    assert not [path for path, content in package.files.items() if isinstance(content, bytes) and b"@@" in content]
    assert_vision_facts(package)
    assert "session.begin(prompt" in swift(package, "EdgecModel")


def test_a_swift_package_without_vision_has_none_of_it(tmp_path: Path) -> None:
    package = swift_package(bundle_of(decoder_manifest("pte-cpu"), tmp_path / "decoder"))
    assert not named(package) & (SWIFT | {"VisionSession.swift", "VisionDecoder.swift"})
    assert not [path for path, source in sources(package).items() if "ModelImage" in source or "Vision" in source]


def test_the_c_target_has_the_sources_of_vision_under_names_of_its_own(tmp_path: Path) -> None:
    package = swift_of(tmp_path)
    folder = f"Sources/{package.module}Engine"
    carried = {path.removeprefix(f"{folder}/edgec/") for path in package.files if path.startswith(f"{folder}/edgec/")}
    assert carried == set(engine_sources(images=True))
    header = text(package, f"{folder}/include/{package.module}Engine.h")
    renamed = dict(re.findall(r"^#define (edgec_\w+) (\w+)$", header, re.MULTILINE))
    defined = {name: here for name, here in renamed_in(package).items() if name.startswith("edgec_")}
    assert renamed.items() >= defined.items() and set(defined) == {*engine_functions(images=True)}
    assert '#include "../edgec/include/edgec/vision.h"' in header
    called = set(re.findall(rf"{package.module}_\w+", swift(package, "Vision") + swift(package, "VisionDecoder")))
    assert called <= set(renamed.values()) and len(called) == 10


def test_a_model_without_vision_has_none_of_it(tmp_path: Path) -> None:
    package = gradle_modules(android_bundle(tmp_path / "decoder", OWN))
    assert not named(package) & (IMAGES | {"edgec_vision_jni.cpp"})
    code = [
        content.decode()
        for path, content in package.files.items()
        if path.endswith(".kt") and isinstance(content, bytes)
    ]
    assert not [each for each in code if "ModelImage" in each or "NativeVision" in each or "Vision." in each]


def test_the_limits_are_those_of_the_engine() -> None:
    header = (SOURCES / "vision/pixels.h").read_text(encoding="utf-8").replace("'", "")
    assert re.search(rf"kMostPixels = {MAX_PIXELS}\b", header) and re.search(rf"kMostRatio = {MAX_RATIO}\b", header)


def test_the_project_compiles_the_sources_of_vision(tmp_path: Path) -> None:
    package = package_of(tmp_path)
    project = text(package, f"{CPP}/values.cmake")
    assert 'set(EDGEC_PARTS "vision")' in project
    listed = {path.removeprefix(f"{CPP}/edgec/") for path in package.files if path.startswith(f"{CPP}/edgec/")}
    assert {f"vision/{path.name}" for path in (SOURCES / "vision").glob("*.cpp")} < listed
    assert "set(EDGEC_JNI edgec_jni.cpp edgec_vision_jni.cpp)" in project
    carried = {path.removeprefix(f"{CPP}/edgec/") for path in package.files if path.startswith(f"{CPP}/edgec/")}
    assert carried == {*engine_sources(images=True), "CMakeLists.txt"}
    assert {f"vision/{path.name}" for path in (SOURCES / "vision").glob("*.cpp")} < carried


def test_kotlin_c_and_r8_name_the_same_functions_and_exceptions(tmp_path: Path) -> None:
    package = package_of(tmp_path)
    for own, native in (("NativeEngine", "edgec_jni.cpp"), ("NativeVision", "edgec_vision_jni.cpp")):
        declared = set(re.findall(r"external fun (\w+)\(", kotlin(package, own)))
        assert declared == set(re.findall(r"EDGEC_JNI\(\w+, (\w+)\)\(", text(package, f"{CPP}/{native}"))), own
    thrown = set(re.findall(r'return "(\w+)";', text(package, f"{CPP}/edgec_vision_jni.cpp")))
    assert len(thrown) == 5
    assert thrown <= set(re.findall(r"^class (\w+)\(", kotlin(package, "Images"), re.MULTILINE))
    rules = text(package, "model/consumer-rules.pro").splitlines()
    for name in ("NativeEngine", "EngineFailed", "NativeVision", *thrown):
        assert f"-keep class {package.module}.{name} {{ *; }}" in rules


def test_apps_throw_for_every_status_of_a_prompt_or_an_image(tmp_path: Path) -> None:
    header = (SOURCES / "include/edgec/vision.h").read_text(encoding="utf-8")
    stated = header.partition("enum EdgecVisionStatus {")[2].partition("};")[0]
    statuses = set(re.findall(r"^  (EDGEC_\w+) = \d+,", stated, re.MULTILINE))
    # Of a bundle: an app was not made for such a one.
    statuses -= {"EDGEC_VISION_ABSENT", "EDGEC_VISION_UNDESCRIBED"}
    native = text(package_of(tmp_path / "a"), f"{CPP}/edgec_vision_jni.cpp")
    assert len(statuses) == 5
    for source in (native, swift(swift_of(tmp_path / "b"), "VisionCall")):
        assert statuses <= set(re.findall(r"case (EDGEC_\w+):", source))


@pytest.mark.parametrize("made", [package_of, swift_of])
@pytest.mark.parametrize("template", [TEMPLATE, ""])
def test_the_readme_says_how_images_are_given(made: Callable[..., AppPackage], template: str, tmp_path: Path) -> None:
    readme = text(made(tmp_path, template=template), "README.md")
    assert "## Images" in readme and "takes 4 tokens of the context." in readme and "`<image>`" in readme
    assert ("each of them in its own place" in readme) == bool(template)
    assert ("cannot be rendered with images" in readme) == (not template)


@pytest.mark.parametrize("made", [package_of, swift_of])
@pytest.mark.parametrize("prepared", [None, PreparationFile(lacking="its processor is odd")])
def test_a_bundle_that_does_not_describe_its_images_is_refused(
    made: Callable[..., AppPackage], prepared: PreparationFile | None, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        made(tmp_path, prepared)
    assert caught.value.code == "E780" and (prepared.lacking if prepared else "older edgec") in caught.value.why


@pytest.mark.parametrize(("target", "write"), [("android-cpu", gradle_modules), ("iphone-16-pro-cpu", swift_package)])
def test_a_bundle_without_tokenizer_or_edgecs_kernels_is_refused(
    target: str, write: Callable[[Bundle], AppPackage], tmp_path: Path
) -> None:
    whole = vision_placeholder(tmp_path / "a", target)
    files = [file for file in whole.manifest.files if not file.path.startswith("tokenizer/")]
    for each, code in (
        (replace(whole, manifest=whole.manifest.model_copy(update={"files": files})), "E462"),
        (vision_placeholder(tmp_path / "b", target, artifact=b"XnnpackBackend"), "E464"),
    ):
        with pytest.raises(InputError) as caught:
            write(each)
        assert caught.value.code == code


@pytest.mark.long
@pytest.mark.parametrize(("platform", "target"), [("android", "android-cpu"), ("ios", "iphone-16-pro-cpu")])
def test_embed_takes_such_a_bundle(platform: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = vision_placeholder(tmp_path / "bundle", target)
    monkeypatch.setattr("edgec.apps.embed.embed.open_bundle", lambda path: bundle)
    assert embed(bundle.path, platform, tmp_path / "kit").path.is_dir()
