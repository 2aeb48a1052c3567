"""The Gradle module of a ``.litertlm``: what it holds, and its Kotlin over stand-ins for LiteRT-LM's API."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from edgec.apps.embed.embed import embed
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.written_package import AppPackage
from edgec.bundle.manifest import Manifest
from edgec.bundle.tools import tools_of
from edgec.errors import InputError
from tests.apps.android_bundles import CPU, LITERT_LM, LITERT_LM_GPU, android_bundle
from tests.apps.kotlin_bundles import golden_vectors, real_bundle
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled


def _text(package: AppPackage, end: str) -> str:
    content = next(content for name, content in package.files.items() if name.endswith(end))
    assert isinstance(content, bytes)
    return content.decode()


def test_the_module_stands_alone_with_the_artifact_and_litert_lm(tmp_path: Path) -> None:
    package = gradle_modules(android_bundle(tmp_path, LITERT_LM))
    assert "model/src/main/assets/model.edgec/manifest.json" in package.files
    names = {Path(name).name for name in package.files}
    assert {"LiteRtLmModel.kt", "ModelConversation.kt", "UnitBackend.kt", "BundleFiles.kt"} <= names
    assert not names & {"EdgecModel.kt", "Session.kt", "Sampling.kt", "GoldenReplay.kt", "job.json"}
    assert not [name for name in package.files if name.startswith(("bench/", "sample/"))]
    properties = _text(package, "gradle.properties")
    assert "\nedgecModules=model\n" in properties and "\nedgecKotlin=2.2.21\n" in properties
    assert "\nedgecRuntime=com.google.ai.edge.litertlm:litertlm-android:0.18.0\n" in properties
    assert "\nedgecUncompressed=litertlm,safetensors\n" in properties
    assert "-keep class com.google.ai.edge.litertlm.** { *; }" in _text(package, "consumer-rules.pro")
    assert not [name for name, content in package.files.items() if isinstance(content, bytes) and b"@@" in content]
    assert "Kotlin 2.2.21 or later" in _text(package, "README.md")


def test_a_bundle_for_the_gpu_names_the_phones_opencl(tmp_path: Path) -> None:
    package = gradle_modules(android_bundle(tmp_path, LITERT_LM_GPU))
    manifest = _text(package, "litertLmGpu/AndroidManifest.xml")
    assert [each.attrib for each in ElementTree.fromstring(manifest).iter("uses-native-library")]
    assert "Backend.GPU()" in _text(package, "UnitBackend.kt") and "second session" in _text(package, "README.md")


@pytest.mark.parametrize(
    ("manifest", "runtime", "words"),
    [
        (CPU, "litert", "--target android-litert"),
        (LITERT_LM, "executorch", "is a .litertlm"),
        (CPU, "tensorflow", "use one of executorch, onnxruntime, litert"),
    ],
)
def test_another_runtime_than_the_bundles_is_refused(
    manifest: Manifest, runtime: str, words: str, tmp_path: Path
) -> None:
    bundle = real_bundle(tmp_path / "tiny.edgec", manifest, golden_vectors())
    with pytest.raises(InputError) as caught:
        embed(bundle, "android", tmp_path / "kit", runtime=runtime)
    assert caught.value.code == "E960" and words in f"{caught.value}"
    assert not (tmp_path / "kit").exists()


def test_tools_and_bare_models_are_refused(tmp_path: Path) -> None:
    bundle = android_bundle(tmp_path, LITERT_LM)
    tool = {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {}}}
    with pytest.raises(InputError) as caught:
        gradle_modules(bundle, tools=tools_of([tool]))
    assert caught.value.code == "E961"
    bare = bundle.manifest.model_copy(update={"format": "tflite"})
    with pytest.raises(InputError) as caught:
        gradle_modules(replace(bundle, manifest=bare))
    assert caught.value.code == "E464" and "--format litertlm" in caught.value.fix


@pytest.mark.slow
@WITH_KOTLIN
@pytest.mark.parametrize(("manifest", "engines"), [(LITERT_LM, 1), (LITERT_LM_GPU, 2)], ids=["cpu", "gpu"])
def test_the_kotlin_streams_conversations(manifest: Manifest, engines: int, tmp_path: Path) -> None:
    """Compiled and run over stand-ins: pieces, turns, errors, cancelling, closing, and an engine for each on a GPU."""
    bundle = real_bundle(tmp_path / "tiny.edgec", manifest, golden_vectors())
    package = embed(bundle, "android", tmp_path / "kit", runtime="litert").package
    main = tmp_path / "Main.kt"
    main.write_text((STAND_INS / "LiteRtLmMain.kt.txt").read_text().replace("PACKAGE", package.module))
    sources = [*sorted(STAND_INS.glob("*.kt")), *sorted((tmp_path / "kit/model").rglob("*.kt")), main]
    classes = compiled(sources, tmp_path / "classes")
    line = ["java", "-cp", classes, f"{package.module}.MainKt", str(bundle), str(tmp_path / "own")]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr[-3000:]
    said = dict(row.split("=", 1) for row in done.stdout.splitlines())
    assert said["first"] == "[0 , 1 , 2 , turn 1 of engine 1 after Be brief.]"
    assert said["second"] == "turn 2 of engine 1 after Be brief."
    assert said["slow"] == "301", "no piece is lost while the reader is slow"
    assert said["failed"] == "LiteRtLmFailed: LiteRT-LM failed: Status Code: 13.."
    assert said["left"] == "0 " and said["cancelled"] == "true"
    assert said["ended"].startswith("ModelClosed") and said["closed"].startswith("ModelClosed")
    assert said["next"] == f"[turn 1 of engine {engines} after null]" and said["engines"] == str(engines)
    # The folder that was checked holds what was exported, and edgec's own mark.
    assert not [name for name in said["beside"].strip("[]").split(", ") if "cache" in name]
