"""Gradle modules of sentence encoders: the model alone, with what its texts need."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.project import ANDROID
from edgec.apps.embed.written_package import AppPackage
from edgec.bundle.manifest import Manifest, Runtime
from edgec.errors import InputError
from tests.apps.android_bundles import CPU, ONNX, android_bundle
from tests.apps.encoder_bundles import encoder_method, placeholder_bundle
from tests.apps.project_files import facts_of, names_in, names_of
from tests.apps.test_engine_project import OWN
from tests.exporter.tiny_sentence_encoder import POSITIONS


def _text(package: AppPackage, end: str) -> str:
    content = next(content for name, content in package.files.items() if name.endswith(end))
    assert isinstance(content, bytes)
    return content.decode()


def _package(folder: Path, padded: bool = False) -> AppPackage:
    return gradle_modules(placeholder_bundle(folder / "bundle", "pte-cpu", encoder_method(padded), "android-cpu"))


@pytest.mark.long
def test_the_module_holds_tokenizer_and_encoder_and_no_app(tmp_path: Path) -> None:
    package = _package(tmp_path)
    names = {Path(name).name for name in package.files}
    assert {"EdgecEncoder.kt", "TextEncoder.kt", "WordPieceModel.kt", "TokenizerSteps.kt", "ModelEncoder.kt"} <= names
    assert not names & {"EdgecModel.kt", "Session.kt", "Sampling.kt", "DecoderFacts.kt", "GoldenReplay.kt"}
    assert not [name for name in package.files if name.startswith(("bench/", "sample/", "buildSrc/"))]
    properties = _text(package, "gradle.properties")
    assert (
        "\nedgecModules=model\n" in properties and "\nedgecRuntime=org.pytorch:executorch-android:1.5.1," in properties
    )
    assert not [name for name, content in package.files.items() if isinstance(content, bytes) and b"@@" in content]


@pytest.mark.parametrize("padded", [False, True])
def test_facts_come_from_the_bundle(padded: bool, tmp_path: Path) -> None:
    package = _package(tmp_path, padded)
    facts = facts_of(package)["encoder"]
    assert (facts["mostTokens"], facts["width"]) == (POSITIONS, 24)
    assert (facts["isPadded"], facts["cutsBeginning"]) == (padded, False)
    readme = _text(package, "README.md")
    assert ("the mask, padding and pooling" in readme) == padded and f"above\n{POSITIONS} tokens" in readme


def test_kernels_of_edgec_are_refused_with_the_way_out(tmp_path: Path) -> None:
    bundle = placeholder_bundle(tmp_path / "bundle", "pte-cpu", encoder_method(padded=False), "android-cpu")
    runtime = Runtime(name="executorch", version="1.5.1", backends=["XnnpackBackend"], operators=["edgec::rope.out"])
    with pytest.raises(InputError) as caught:
        gradle_modules(replace(bundle, manifest=bundle.manifest.model_copy(update={"runtime": runtime})))
    assert caught.value.code == "E464" and "--kernels standard" in caught.value.fix


DECLARED = re.compile(r"^(?:internal |private )?(?:(?:data|enum|sealed|open) )?(?:class|object|interface) (\w+)", re.M)


def _kotlin(package: AppPackage) -> dict[str, str]:
    """The package's Kotlin sources by their names, without comments."""
    sources = [(Path(name).name, content) for name, content in package.files.items() if name.endswith(".kt")]
    comment = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
    return {name: comment.sub("", bytes(content).decode()) for name, content in sources}


@pytest.mark.parametrize("manifest", [CPU, ONNX, OWN])
def test_no_file_names_what_only_language_models_have(manifest: Manifest, tmp_path: Path) -> None:
    """Files that all modules share would not compile here; the Kotlin compiler that tells so is not everywhere."""
    own = _kotlin(_package(tmp_path))
    others = _kotlin(gradle_modules(android_bundle(tmp_path / "decoder", manifest)))
    declared, absent = ({name for text in files.values() for name in DECLARED.findall(text)} for files in (own, others))
    absent -= declared
    assert {"FinishReason", "ModelSchema", "ConstrainedText", "AnswerUnfinished", "Session"} <= absent
    named = {name: absent & set(re.findall(r"\w+", text)) for name, text in own.items()}
    assert not {name: words for name, words in named.items() if words}


def test_every_source_of_encoders_is_used(tmp_path: Path) -> None:
    own = names_in(ANDROID / "model" / "src" / "encoder", ".kt")
    assert len(own) == 4 and own <= names_of([_package(tmp_path)])
