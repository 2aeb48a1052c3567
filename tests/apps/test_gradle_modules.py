"""Gradle modules: every manifest value stays inside its literal, records follow the schema, the Kotlin compiles."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import zipfile
from dataclasses import MISSING
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.apps.embed import app_facts, kotlin_text
from edgec.apps.embed.gradle_modules import _JOB, gradle_modules
from edgec.apps.embed.project import ANDROID
from edgec.apps.embed.written_package import AppPackage, write_package
from edgec.bundle.manifest import Manifest, Runtime
from edgec.devices.transport import DeviceFacts
from edgec.errors import InputError
from edgec.runtime_py.bench import record as bench_record
from tests.apps.android_bundles import (
    CPU,
    DELEGATED,
    GPU,
    HEXAGON,
    LITERT_LM,
    LITERT_LM_GPU,
    ONNX,
    android_bundle,
)
from tests.apps.audio_bundles import TIMED_CONFIG, WHISPER, audio_placeholder
from tests.apps.encoder_bundles import encoder_method, placeholder_bundle
from tests.apps.ios_bundles import bundle_of, decoder_manifest, module_manifest
from tests.apps.project_files import facts_of, in_android, names_in, names_of
from tests.apps.vision_app_bundles import vision_placeholder


def _text(package: AppPackage, end: str) -> str:
    content = next(content for name, content in package.files.items() if name.endswith(end))
    assert isinstance(content, bytes)
    return content.decode()


def test_the_modules_hold_wrapper_bundle_and_bench_app(tmp_path: Path) -> None:
    package = gradle_modules(android_bundle(tmp_path, CPU))
    assert package.module == "dev.edgec.stories260khost" and not package.asset_pack
    properties = _properties(_text(package, "gradle.properties"))
    assert properties["edgecModules"] == "model,bench,sample"
    assert properties["edgecModelSets"] == "main,texts,decoder,textSession,executorch,dynamicDecoder"
    model = _text(package, "model/build.gradle.kts")
    assert 'abiFilters += "arm64-v8a"' in model and properties["edgecUncompressed"] == "pte,safetensors"
    assert properties["edgecRuntime"].startswith("org.pytorch:executorch-android:1.5.1,")
    assert "model/src/main/assets/model.edgec/model.pte" in package.files
    assert not [name for name, content in package.files.items() if isinstance(content, bytes) and b"@@" in content]
    for name in package.files:
        if name.endswith("AndroidManifest.xml"):
            ElementTree.fromstring(_text(package, name))


def _properties(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))


def test_gradle_can_build_the_project(tmp_path: Path) -> None:
    """AndroidX, versions, the Gradle to download with its sha256, and rules for R8, all of which a build needs."""
    package = gradle_modules(android_bundle(tmp_path / "bundle", CPU))
    assert _properties(_text(package, "gradle.properties"))["android.useAndroidX"] == "true"
    wrapper = _properties(_text(package, "gradle-wrapper.properties"))
    assert wrapper["distributionUrl"] == r"https\://services.gradle.org/distributions/gradle-8.14.3-bin.zip"
    assert re.fullmatch("[0-9a-f]{64}", wrapper["distributionSha256Sum"])
    settings_file, root = _text(package, "settings.gradle.kts"), package.files["build.gradle.kts"]
    assert isinstance(root, bytes)
    plug_ins = re.findall(r'id\("([\w.-]+)"\) version (\w+)', settings_file)
    applied = set(re.findall(r'id\("([\w.]+)"\) apply false', root.decode()))
    assert {name for name, _ in plug_ins} == applied | {"com.android.ai-pack"}
    stated = _properties(_text(package, "gradle.properties"))
    assert all(re.fullmatch(r"[\d.]+", stated[version]) for _, version in plug_ins)
    model, bench = _text(package, "model/build.gradle.kts"), _text(package, "bench/build.gradle.kts")
    assert 'consumerProguardFiles("consumer-rules.pro")' in model and "PageSizes" in bench
    assert stated["edgecTargetSdk"] == "35" and "isMinifyEnabled = true" in bench
    assert not [name for name, content in package.files.items() if isinstance(content, bytes) and b"djl" in content]


def _with_gradle(tmp_path: Path, digest: str | None = None) -> Path:
    """A project whose Gradle is a small script in an archive on this disk."""
    archive = tmp_path / "gradle-1.0-bin.zip"
    with zipfile.ZipFile(archive, "w") as file:
        program = zipfile.ZipInfo("gradle-1.0/bin/gradle")
        program.external_attr = 0o755 << 16
        file.writestr(program, '#!/bin/sh\necho "gradle $*"\n')
    project = tmp_path / "out"
    write_package(gradle_modules(android_bundle(tmp_path / "bundle", CPU)), project)
    fetched = digest or hashlib.sha256(archive.read_bytes()).hexdigest()
    lines = f"distributionSha256Sum={fetched}\ndistributionUrl=file\\://{archive}\n"
    (project / "gradle/wrapper/gradle-wrapper.properties").write_text(lines)
    return project


def _start(project: Path, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GRADLE_USER_HOME": str(home)}
    command = [str(project / "gradlew"), "tasks"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not all(map(shutil.which, ("sh", "curl", "unzip"))), reason="no curl or unzip here")
def test_the_wrapper_fetches_gradle_once_and_starts_it(tmp_path: Path) -> None:
    project, home = _with_gradle(tmp_path), tmp_path / "home with a space"
    assert not os.access(project / "README.md", os.X_OK)
    for _ in range(2):
        done = _start(project, home)
        assert (done.returncode, done.stdout) == (0, f"gradle -p {project} tasks\n"), done.stderr
        (tmp_path / "gradle-1.0-bin.zip").unlink(missing_ok=True)
    (place,) = (home / "wrapper/dists/gradle-1.0-bin").iterdir()
    assert [path.name for path in place.iterdir()] == ["gradle-1.0"]


@pytest.mark.skipif(not all(map(shutil.which, ("sh", "curl", "unzip"))), reason="no curl or unzip here")
def test_another_gradle_than_the_one_named_is_not_started(tmp_path: Path) -> None:
    done = _start(_with_gradle(tmp_path, "0" * 64), tmp_path / "home")
    assert done.returncode == 1 and "instead of" in done.stderr and not done.stdout
    assert not list((tmp_path / "home").rglob("gradle.zip"))


@pytest.mark.parametrize(("manifest", "kept"), [(CPU, "org.pytorch.executorch"), (ONNX, "ai.onnxruntime")])
def test_what_native_code_looks_up_is_kept(manifest: Manifest, kept: str, tmp_path: Path) -> None:
    rules = _text(gradle_modules(android_bundle(tmp_path, manifest)), "model/consumer-rules.pro")
    assert f"-keep class {kept}.** {{ *; }}" in rules.splitlines()


def test_facts_come_from_the_bundle(tmp_path: Path) -> None:
    package = gradle_modules(android_bundle(tmp_path, CPU))
    facts = facts_of(package)
    decoder = facts["decoder"]
    assert (decoder["stopTokens"], decoder["repetitionPenalty"], decoder["canRewind"]) == ([2, 3], 1.1, False)
    assert decoder["vocabulary"] == 512 and facts["chat"]["known"] and "CITIZEN:" in str(facts["chat"]["pieces"])
    assert facts["model"]["methods"][0]["inputs"][0] == {"name": "tokens", "dtype": "int64", "shape": [1, -1]}


def test_a_large_bundle_is_an_ai_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_facts, "ASSET_PACK_BYTES", 100)
    package = gradle_modules(android_bundle(tmp_path, CPU))
    assert package.asset_pack and "model_pack/src/main/assets/model.edgec/model.pte" in package.files
    assert 'id("com.android.ai-pack")' in _text(package, "model_pack/build.gradle.kts")
    properties = _properties(_text(package, "gradle.properties"))
    assert (properties["edgecModules"], properties["edgecPack"]) == ("model,bench,sample,model_pack", "true")
    assert 'id("com.android.ai-pack") apply false' in bytes(package.files["build.gradle.kts"]).decode()
    assert "Play AI pack" in _text(package, "README.md")


@pytest.mark.parametrize(
    ("fields", "code"),
    [({"target": "iphone-16-pro-cpu"}, "E460"), ({"format": "qnn"}, "E464"), ({"limits": None}, "E464")],
)
def test_what_does_not_fit_is_refused(fields: dict[str, Any], code: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        gradle_modules(android_bundle(tmp_path, CPU, **fields))
    assert caught.value.code == code


def test_own_kernels_for_another_unit_and_modules_are_refused(tmp_path: Path) -> None:
    runtime = Runtime(name="executorch", version="1.5.1", backends=["VulkanBackend"], operators=["edgec::rope.out"])
    with pytest.raises(InputError) as caught:
        gradle_modules(android_bundle(tmp_path, GPU, runtime=runtime))
    assert caught.value.code == "E464" and "--kernels standard" in caught.value.fix
    module = module_manifest("pte-cpu", decoder_manifest("pte-cpu").methods, target="android-cpu")
    with pytest.raises(InputError):
        gradle_modules(bundle_of(module, tmp_path / "module"))


@pytest.mark.parametrize(
    ("manifest", "archives"),
    [
        (GPU, ["org.pytorch:executorch-android-vulkan:1.5.1"]),
        (DELEGATED, ["org.pytorch:executorch-android-qnn:1.5.1"]),
        (ONNX, ["com.microsoft.onnxruntime:onnxruntime-android:1.31.1"]),
        (HEXAGON, ["com.qualcomm.qti:onnxruntime-android-qnn:2.7.0", "com.qualcomm.qti:qnn-runtime:2.51.0"]),
    ],
    ids=["gpu", "delegated", "onnx", "hexagon"],
)
def test_static_methods_get_their_runtime_and_a_cache_of_their_own(
    manifest: Manifest, archives: list[str], tmp_path: Path
) -> None:
    package = gradle_modules(android_bundle(tmp_path, manifest))
    properties = _properties(_text(package, "gradle.properties"))
    assert set(archives) <= set(properties["edgecRuntime"].split(","))
    assert "class StateSize(" in _text(package, "StateSize.kt") and facts_of(package)["decoder"]["canRewind"]
    hexagon = manifest is HEXAGON
    assert ("model/src/hexagon/AndroidManifest.xml" in package.files) == hexagon
    assert properties["edgecModelSets"].endswith(",hexagon") == hexagon
    # Its archives' manifests ask for it: a lower number in the app's is an error of the build.
    assert properties["edgecMinSdk"] == ("27" if hexagon else "26")
    assert package.minimum_os == ("8.1" if hexagon else "8.0")
    assert properties["edgecUnpacked"] == str(hexagon).lower()
    never = manifest in (GPU, DELEGATED)
    assert ("has never been executed" in _text(package, "README.md")) == never


@pytest.mark.long
@given(st.text())
@settings(max_examples=300, deadline=None)
def test_a_kotlin_literal_says_the_same_text(value: str) -> None:
    literal = kotlin_text.string(value)
    assert literal.isascii() and literal.count('"') == 2 and "$" not in literal
    assert not re.search(r"\\(?!u[0-9A-F]{4})", literal)
    units = re.sub(r"\\u([0-9A-F]{4})", lambda match: chr(int(match[1], 16)), literal[1:-1])
    back = units.encode("utf-16", "surrogatepass").decode("utf-16")
    assert back == re.sub("[\ud800-\udfff]", "\ufffd", value)


@given(st.text(max_size=30))
@settings(max_examples=100, deadline=None)
def test_packages_have_plain_names(name: str) -> None:
    assert re.fullmatch(r"dev\.edgec\.[a-z][a-z0-9]*", kotlin_text.package_name(name))


def _keys(function: str) -> set[str]:
    source = in_android("BenchRecords")
    match = re.search(rf"fun {function}\(.*?\n    \)", source, re.DOTALL)
    assert match is not None
    return set(re.findall(r'^\s*"([a-z0-9_]+)" to', match[0], re.MULTILINE))


def _assert_fields(written: set[str], record: Any) -> None:
    """Assert that only fields of the record are written, and all those without a default."""
    assert written <= set(record.model_fields)
    assert {name for name, field in record.model_fields.items() if field.is_required()} <= written


@pytest.mark.parametrize("kind", ["Run", "Load", "Memory", "Repetition", "Sustained"])
def test_the_bench_app_writes_the_fields_of_the_schema(kind: str) -> None:
    record = getattr(bench_record, f"{kind}Record")
    _assert_fields(_keys(kind.lower()) | _keys("common"), record)
    assert "kind" in _keys(kind.lower())
    _assert_fields(_keys("comparability"), bench_record.Comparability)
    _assert_fields(_keys("subject"), bench_record.Subject)
    fields = DeviceFacts.__dataclass_fields__
    required = {name for name, field in fields.items() if field.default is MISSING}
    assert required | {"executed_in"} <= _keys("device") <= set(fields)


def test_the_bench_app_reads_what_its_job_says(tmp_path: Path) -> None:
    sources = "".join(in_android(name) for name in ("BenchActivity", "BenchRecords"))
    read = set(re.findall(r'job\.get\w+\("(\w+)"\)', sources))
    assert (
        read
        == {*_JOB, "edgec_version"}
        == set(json.loads(_text(gradle_modules(android_bundle(tmp_path, CPU)), "job.json")))
    )


@pytest.mark.long
def test_every_file_of_the_project_is_in_some_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoders = [
        gradle_modules(android_bundle(tmp_path / f"{i}", each))
        for i, each in enumerate((CPU, GPU, HEXAGON, LITERT_LM, LITERT_LM_GPU))
    ]
    encoder = placeholder_bundle(tmp_path / "encoder", "pte-cpu", encoder_method(False), "android-cpu")
    sound = audio_placeholder(tmp_path / "sound", "android-cpu", WHISPER, TIMED_CONFIG)
    images = vision_placeholder(tmp_path / "images", "android-cpu")
    monkeypatch.setattr(app_facts, "ASSET_PACK_BYTES", 100)
    packed = gradle_modules(android_bundle(tmp_path / "packed", CPU))
    packages = [packed, *decoders, *map(gradle_modules, (encoder, sound, images))]
    assert names_in(ANDROID, ".kt", ".kts", ".java", ".xml", ".cmake", ".cpp", ".h") - names_of(packages) == {
        "SchemaValues.kt"
    }
