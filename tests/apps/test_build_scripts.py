"""The generated build scripts, compiled over stand-ins of Gradle's and its Android plug-in's interfaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.apps.embed import app_facts
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.written_package import AppPackage
from tests.apps.android_bundles import CPU, HEXAGON, android_bundle
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled
from tests.apps.test_engine_project import OWN

_ARTIFACTS = "package com.android.build.api.artifact\nenum class SingleArtifact { APK }\n"
_CHECK = "package dev.edgec\nobject PageSizeCheck { fun problems(apk: java.io.File): List<String> = listOf() }\n"


def _as_function(script: str, name: str) -> str:
    """A script's imports, followed by the rest of it as the body of a function."""
    lines = script.splitlines()
    imports = [line for line in lines if line.startswith("import ")]
    body = [f"    {line}" for line in lines if not line.startswith("import ")]
    return "\n".join([*imports, f"fun {name}(script: Script) = with(script) {{", *body, "}\n"])


def _sources(package: AppPackage, folder: Path, prefix: str) -> list[Path]:
    written = []
    for name, content in package.files.items():
        if name.endswith(".kts") and isinstance(content, bytes):
            function = prefix + "".join(part for part in name if part.isalpha())
            written.append(folder / f"{function}.kt")
            written[-1].write_text(_as_function(content.decode(), function))
    return written


@pytest.mark.slow
@WITH_KOTLIN
def test_the_build_scripts_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = _sources(gradle_modules(android_bundle(tmp_path / "hexagon", HEXAGON)), tmp_path, "hexagon")
    sources += _sources(gradle_modules(android_bundle(tmp_path / "own", OWN)), tmp_path, "own")
    monkeypatch.setattr(app_facts, "ASSET_PACK_BYTES", 100)
    sources += _sources(gradle_modules(android_bundle(tmp_path / "packed", CPU)), tmp_path, "packed")
    assert len(sources) == 6 + 6 + 7
    for name, text in {
        "Artifacts": _ARTIFACTS,
        "Check": _CHECK,
        "Gradle": (STAND_INS / "Gradle.kt.txt").read_text(),
    }.items():
        (tmp_path / f"{name}.kt").write_text(text)
        sources.append(tmp_path / f"{name}.kt")
    compiled(sources, tmp_path / "classes")
