"""Schemas of a bundle in an app's code: constants of their names, what other runtimes get, and the READMEs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import AppPackage
from edgec.bundle.schemas import paths_of_schemas
from tests.apps.android_bundles import CPU, EXAMPLE, ONNX, tokenizer_config
from tests.apps.ios_bundles import bundle_of, decoder_manifest
from tests.apps.swift_syntax import assert_sound

NAMES = ["answerKind", "answer-kind", "class", "none", "some", "HTTPReply_2", "person"]
SWIFT = ["answerKind", "answerKind2", "classValue", "noneValue", "someValue", "httpreply2", "person"]
KOTLIN = ["ANSWER_KIND", "ANSWER_KIND2", "CLASS", "NONE", "SOME", "HTTPREPLY_2", "PERSON"]
ENGINE, OTHER = b"EdgecLinear", b"XnnpackBackend"


def made(platform: str, folder: Path, artifact: bytes = ENGINE, names: list[str] = NAMES) -> AppPackage:
    """The package of a bundle with schemas of these names; its artifact names the runtime that it needs."""
    manifest = CPU if platform == "android" else decoder_manifest("pte-cpu")
    own = {"tokenizer/tokenizer.json": (EXAMPLE / "tokenizer.json").read_bytes()}
    own["tokenizer/tokenizer_config.json"] = tokenizer_config()
    schemas = dict.fromkeys(paths_of_schemas(names), b"x")
    files = {**(own if platform == "android" else {}), **schemas, manifest.artifact: artifact}
    bundle = bundle_of(manifest.model_copy(update={"schemas": names}), folder, files)
    return gradle_modules(bundle) if platform == "android" else swift_package(bundle)


def written(package: AppPackage, name: str) -> str:
    """The content of the only written file of this name."""
    (content,) = (content for path, content in package.files.items() if path.rpartition("/")[2] == name)
    assert isinstance(content, bytes)
    return content.decode()


def test_each_schema_has_a_constant_in_swift(tmp_path: Path) -> None:
    package = made("ios", tmp_path)
    assert_sound(package)
    source = written(package, "SchemaNames.swift")
    found = dict(re.findall(r'public static let (\w+) = ModelSchema\("([\w-]+)"\)', source))
    assert found == dict(zip(SWIFT, NAMES, strict=True))


def test_each_schema_has_a_constant_in_kotlin(tmp_path: Path) -> None:
    source = written(made("android", tmp_path), "SchemaNames.kt")
    found = dict(re.findall(r'val (\w+) = ModelSchema\("([\w-]+)"\)', source))
    assert found == dict(zip(KOTLIN, NAMES, strict=True))


@pytest.mark.long
def test_a_module_apart_decodes_answers_in_kotlin(tmp_path: Path) -> None:
    package = made("android", tmp_path / "engine", names=["person"])
    assert "\nedgecModules=model,bench,sample,model_json\n" in written(package, "gradle.properties")
    source, build = written(package, "SchemaValues.kt"), package.files["model_json/build.gradle.kts"]
    assert "generateValue(" in source and isinstance(build, bytes) and b'api(project(":model"))' in build
    assert b"kotlinx-serialization-json:$edgecSerialization" in build
    model = package.files["model/build.gradle.kts"]
    assert isinstance(model, bytes) and b"serialization" not in model
    for other in (made("android", tmp_path / "none", names=[]), made("android", tmp_path / "other", OTHER)):
        assert not [path for path in other.files if "model_json" in path]
        assert "model_json" not in written(other, "settings.gradle.kts")


@pytest.mark.parametrize("platform", ["ios", "android"])
def test_the_package_holds_the_compiled_schemas(platform: str, tmp_path: Path) -> None:
    shipped = {path.partition(".edgec/")[2] for path in made(platform, tmp_path).files}
    assert set(paths_of_schemas(NAMES)) <= shipped


@pytest.mark.parametrize("platform", ["ios", "android"])
def test_the_readme_shows_the_calls_where_the_engine_holds_answers(platform: str, tmp_path: Path) -> None:
    readme = written(made(platform, tmp_path / "engine", names=["person"]), "README.md")
    assert "## Schemas" in readme and "`person`" in readme
    call = ".generate(prompt:" if platform == "ios" else ".generateJson("
    assert call in readme and ("schema: .person" if platform == "ios" else "Schemas.PERSON") in readme
    without = written(made(platform, tmp_path / "none", names=[]), "README.md")
    assert "## Schemas" not in without and "\n\n\n" not in without


@pytest.mark.parametrize("platform", ["ios", "android"])
def test_other_runtimes_name_no_schema_and_refuse_all(platform: str, tmp_path: Path) -> None:
    package = made(platform, tmp_path, OTHER)
    source = written(package, "Schemas.swift" if platform == "ios" else "Schemas.kt")
    assert "ModelSchema(" not in source.replace("ModelSchema internal constructor(", "")
    readme = written(package, "README.md")
    assert "only edgec's engine holds answers to them" in readme and "schema: ." not in readme
    refusal = written(package, "Runtime.swift") if platform == "ios" else source
    assert re.search(r"chemaRefused\(\"only edgec's engine", refusal)
    assert platform == "ios" or "SchemaRuntime" not in written(package, "ModelRuntime.kt")


def test_onnx_runtime_refuses_all(tmp_path: Path) -> None:
    own = {"tokenizer/tokenizer.json": (EXAMPLE / "tokenizer.json").read_bytes()}
    own["tokenizer/tokenizer_config.json"] = tokenizer_config()
    bundle = bundle_of(ONNX.model_copy(update={"schemas": ["person"]}), tmp_path, own)
    package = gradle_modules(bundle)
    assert "SchemaRuntime" not in written(package, "ModelRuntime.kt")
    assert "val PERSON" not in written(package, "Schemas.kt")
