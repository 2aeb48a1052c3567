"""The generated Kotlin downloader, run against a loopback server that fails in many ways, and on full disks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgec.bundle.folder import open_bundle
from edgec.bundle.parts_list import PARTS_LIST
from edgec.devices.embed import app_facts, kotlin_text
from edgec.devices.embed.gradle_modules import gradle_modules
from edgec.devices.embed.written_package import write_package
from tests.devices.embed import parts_server as server
from tests.devices.embed.android_bundles import CPU
from tests.devices.embed.download_apps import PART_BYTES, App, Made, assert_whole, in_parts
from tests.devices.embed.download_cases import DownloadCases
from tests.devices.embed.ios_bundles import target
from tests.devices.embed.kotlin_bundles import golden_vectors, real_bundle
from tests.devices.embed.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled
from tests.devices.embed.parts_server import PartsServer
from tests.small_disk import mounted

pytestmark = [pytest.mark.slow, WITH_KOTLIN]

PACKAGE = kotlin_text.package_name(CPU.name)
SOURCES = (
    *("BundleDownload", "BundleFiles", "BundleFit", "DownloadFolder", "EdgecException", "LoadStep", "ModelFacts"),
    *("PartFetch", "PartsList", "PinnedKey", "SignatureFile", "SignedBundle"),
)
ANDROID = tuple(STAND_INS / name for name in ("AssetManager.kt", "Context.kt", "JsonReader.kt", "Os.kt"))


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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    with mounted(tmp_path / "disk", "1m") as disk:
        yield disk


def test_a_disk_that_is_too_small_is_refused_first(made: Made, app: App, parts: PartsServer, small_disk: Path) -> None:
    (small_disk / "other").write_bytes(bytes(800_000))
    assert app.get(parts.url, small_disk / "b")[0] == "NotEnoughSpace"
    assert [name for name, _ in parts.asked] == [PARTS_LIST]


def test_a_disk_that_fills_on_the_way(made: Made, app: App, parts: PartsServer, small_disk: Path) -> None:
    def fill(answer: server.Answer) -> None:
        with open(small_disk / "other", "wb", buffering=0) as other:
            while shutil.disk_usage(small_disk).free > 8192:
                other.write(bytes(4096))
        answer.give(answer.whole)

    parts.faults = lambda name, number: fill if name == "part-00003" else None
    assert app.get(parts.url, small_disk / "b")[0] == "StorageFailed"
    (small_disk / "other").unlink()
    parts.faults = lambda name, number: None
    parts.asked.clear()
    assert app.get(parts.url, small_disk / "b")[0] == "done"
    assert "part-00002" not in [name for name, _ in parts.asked]
    assert_whole(made, small_disk / "b")


def test_the_disk_needs_the_bundle_and_one_part(made: Made, app: App, parts: PartsServer, small_disk: Path) -> None:
    sizes = [path.stat().st_size for path in made.bundle.rglob("*") if path.is_file()]
    pages = sum(-(-size // 4096) * 4096 for size in sizes)
    spare = pages + PART_BYTES + 8 * 4096
    (small_disk / "other").write_bytes(bytes(shutil.disk_usage(small_disk).free - spare))
    assert app.get(parts.url, small_disk / "b")[0] == "done"
    (small_disk / "other").unlink()
    assert_whole(made, small_disk / "b")
