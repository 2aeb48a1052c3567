"""The generated Kotlin downloader, run against a loopback server that fails in many ways, and on full disks."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.apps.embed import app_facts, kotlin_text
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.written_package import write_package
from edgec.bundle.folder import open_bundle
from tests.apps.android_bundles import CPU
from tests.apps.download_apps import Made, in_parts
from tests.apps.download_cases import DownloadCases
from tests.apps.full_disk_cases import FullDiskCases
from tests.apps.ios_bundles import target
from tests.apps.kotlin_bundles import golden_vectors, real_bundle
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled

pytestmark = [pytest.mark.slow, WITH_KOTLIN]

PACKAGE = kotlin_text.package_name(CPU.name)
SOURCES = (
    *("BundleDownload", "BundleFiles", "BundleFit", "DownloadFolder", "EdgecException", "LoadStep", "ModelFacts"),
    *("PartFetch", "PartsList", "PinnedKey", "SignatureFile", "SignedBundle"),
)
ANDROID = tuple(
    STAND_INS / name
    for name in ("AssetManager.kt", "ContentResolver.kt", "Context.kt", "JsonReader.kt", "Os.kt", "Uri.kt")
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("made")
    bundle, parts = in_parts(real_bundle(folder / "sample.edgec", CPU, golden_vectors()), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app_facts, "load_target", target)
        write_package(gradle_modules(open_bundle(bundle)), folder / "kit")
    main = folder / "DownloadMain.kt"
    main.write_text((STAND_INS / "DownloadMain.kt.txt").read_text().replace("PACKAGE", PACKAGE))
    own = [next((folder / "kit").rglob(f"{name}.kt")) for name in SOURCES]
    classes = compiled([*own, *ANDROID, main], folder / "classes")
    return Made(bundle, parts, ["java", "-XX:TieredStopAtLevel=1", "-cp", classes, f"{PACKAGE}.DownloadMainKt"])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


class TestKotlin(DownloadCases):
    """The cases, in Kotlin."""


class TestKotlinOnFullDisks(FullDiskCases):
    """The cases of full disks, in Kotlin."""
