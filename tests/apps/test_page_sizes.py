"""Native libraries for pages of 16 KB: read from ELF headers, known by version, refused where Google Play would."""

from __future__ import annotations

import shutil
import struct
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.page_sizes import (
    LibraryPages,
    android_libraries,
    library_pages,
    load_alignment,
    unaligned_libraries,
)
from edgec.errors import InputError
from tests.apps.android_bundles import CPU, HEXAGON, android_bundle

LOAD, NOTE = 1, 4


def elf(*aligned: int, wide: bool = True, order: str = "<") -> bytes:
    """An ELF file with a note and one loaded segment per alignment."""
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    segments = [(NOTE, 4), *((LOAD, each) for each in aligned)]
    if wide:
        head = ident + struct.pack(order + "HHIQQQIHHHHHH", 3, 183, 1, 0, 64, 0, 0, 64, 56, len(segments), 64, 0, 0)
        return head + b"".join(struct.pack(order + "IIQQQQQQ", kind, 5, 0, 0, 0, 0, 0, size) for kind, size in segments)
    head = ident + struct.pack(order + "HHIIIIIHHHHHH", 3, 164, 1, 0, 52, 0, 0, 52, 32, len(segments), 40, 0, 0)
    rows = b"".join(struct.pack(order + "IIIIIIII", kind, 0, 0, 0, 0, 0, 5, size) for kind, size in segments)
    return (head + rows).ljust(256, b"\0")


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("order", ["<", ">"])
def test_the_smallest_alignment_of_what_is_loaded_counts(wide: bool, order: str) -> None:
    assert load_alignment(elf(16384, 65536, wide=wide, order=order)) == 16384
    assert load_alignment(elf(16384, 4096, wide=wide, order=order)) == 4096
    assert load_alignment(elf(wide=wide, order=order)) is None and load_alignment(b"PK\x03\x04") is None


def test_this_machines_own_library_is_read() -> None:
    """Against readelf, where it is installed."""
    library = next(Path("/lib/x86_64-linux-gnu").glob("libc.so*"), None)
    if library is None or shutil.which("readelf") is None:
        pytest.skip("needs a C library and readelf")
    told = subprocess.run(["readelf", "-lW", library], capture_output=True, text=True, check=True).stdout
    loaded = [int(line.split()[-1], 16) for line in told.splitlines() if line.strip().startswith("LOAD")]
    assert load_alignment(library.read_bytes()) == min(loaded)


@pytest.mark.parametrize("content", [b"\x7fELF", elf(16384)[:80], b"\x7fELF\x07" + bytes(80)])
def test_broken_libraries_are_told(content: bytes) -> None:
    with pytest.raises(ValueError, match="broken"):
        load_alignment(content)


def archive(path: Path, files: Mapping[str, bytes]) -> Path:
    """A zip with files that are stored as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return path


def test_only_phones_libraries_of_an_archive_are_judged(tmp_path: Path) -> None:
    files = {"jni/arm64-v8a/a.so": elf(4096), "jni/arm64-v8a/b.so": elf(16384), "jni/x86/c.so": elf(4096), "d": b""}
    assert unaligned_libraries(archive(tmp_path / "x.aar", files)) == {"jni/arm64-v8a/a.so": 4096}
    with pytest.raises(ValueError):
        unaligned_libraries(Path(__file__))


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, without the developer's own caches."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GRADLE_USER_HOME", str(tmp_path / "gradle"))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("org.pytorch:executorch-android:1.5.1", "aligned"),
        ("org.pytorch:executorch-android:1.0.1", "unaligned"),
        ("com.facebook.fbjni:fbjni:0.7.0", "aligned"),
        ("com.microsoft.onnxruntime:onnxruntime-android:1.20.0", "unaligned"),
        ("com.microsoft.onnxruntime:onnxruntime-android:1.22.0", "unknown"),
        ("com.microsoft.onnxruntime:onnxruntime-android:1.27.0", "aligned"),
        ("com.microsoft.onnxruntime:onnxruntime-android:+", "unknown"),
        ("com.qualcomm.qti:qnn-runtime:2.51.0", "unknown"),
        ("org.example:other:1", "unknown"),
        ("org.pytorch:executorch-android:", "unknown"),
        ("org.pytorch:executorch-android:nightly:x", "unknown"),
    ],
)
def test_what_is_known_of_a_version(name: str, status: str, caches: Path) -> None:
    (pages,) = library_pages([name])
    assert pages.status == status and pages.source


@pytest.mark.parametrize("place", ["gradle/caches/modules-2/files-2.1/g.h/n/1/abc", "home/.m2/repository/g/h/n/1"])
def test_an_archive_on_this_machine_is_read_itself(place: str, caches: Path) -> None:
    path = archive(caches / place / "n-1.aar", {"jni/arm64-v8a/libn.so": elf(16384)})
    assert library_pages(["g.h:n:1"])[0].status == "aligned"
    archive(path, {"jni/arm64-v8a/libn.so": elf(4096)})
    (pages,) = library_pages(["g.h:n:1"])
    assert pages.status == "unaligned" and "libn.so is aligned to 4096 bytes" in pages.source
    path.write_bytes(b"no archive")
    assert library_pages(["g.h:n:1"]) == [
        LibraryPages("g.h:n:1", "unknown", "n-1.aar on this machine cannot be read: File is not a zip file")
    ]


def test_what_google_play_refuses_is_refused(caches: Path) -> None:
    old = CPU.model_copy(update={"runtime": CPU.runtime.model_copy(update={"version": "1.0.1"})})
    bundle = android_bundle(caches / "old", old)
    with pytest.raises(InputError) as caught:
        gradle_modules(bundle)
    assert caught.value.code == "E471" and "executorch-android:1.0.1" in str(caught.value.where)
    readme = gradle_modules(bundle, target_sdk=34).files["README.md"]
    assert isinstance(readme, bytes) and b"executorch-android:1.0.1` | unaligned |" in readme


def test_a_library_inside_the_bundle_is_read(caches: Path) -> None:
    bundle = android_bundle(caches / "bundle", CPU)
    (bundle.path / CPU.artifact).write_bytes(elf(16384))
    gradle_modules(bundle)
    (bundle.path / CPU.artifact).write_bytes(elf(4096))
    with pytest.raises(InputError) as caught:
        gradle_modules(bundle)
    assert caught.value.code == "E471" and "4096" in str(caught.value.why)
    (bundle.path / CPU.artifact).write_bytes(elf(4096)[:70])
    with pytest.raises(InputError, match="aligned"):
        gradle_modules(bundle)


@pytest.mark.parametrize("target", [25, 36])
def test_a_target_outside_the_range_is_refused(target: int, caches: Path) -> None:
    with pytest.raises(InputError) as caught:
        gradle_modules(android_bundle(caches / "bundle", CPU), target)
    assert caught.value.code == "E472"


def test_hexagons_app_says_what_is_not_known(caches: Path) -> None:
    readme = gradle_modules(android_bundle(caches / "bundle", HEXAGON)).files["README.md"]
    assert isinstance(readme, bytes) and b"| `com.qualcomm.qti:qnn-runtime:2.51.0` | unknown |" in readme


def test_every_library_names_its_source() -> None:
    libraries = android_libraries()
    assert libraries and all(row["source"] for row in libraries.values())


@pytest.mark.long
@pytest.mark.skipif(shutil.which("javac") is None, reason="needs javac")
def test_the_projects_own_check_reads_an_apk(caches: Path) -> None:
    """The Java of buildSrc, compiled and run on APKs made here: alignment of segments and inside the APK."""
    package = gradle_modules(android_bundle(caches / "bundle", CPU))
    source = caches / "PageSizeCheck.java"
    content = package.files["buildSrc/src/main/java/dev/edgec/PageSizeCheck.java"]
    assert isinstance(content, bytes)
    source.write_bytes(content)
    main = caches / "Main.java"
    main.write_text(
        "public class Main { public static void main(String[] apks) throws Exception { for (String apk : apks)"
        " System.out.println(dev.edgec.PageSizeCheck.problems(new java.io.File(apk))); } }"
    )
    subprocess.run(["javac", "-d", caches / "classes", source, main], check=True, capture_output=True)
    apks = [
        _apk(caches / "good.apk", 16384, 0),
        _apk(caches / "bad.apk", 4096, 0),
        _apk(caches / "moved.apk", 16384, 8),
    ]
    told = subprocess.run(
        ["java", "-cp", caches / "classes", "Main", *apks], check=True, capture_output=True, text=True
    )
    good, bad, moved = told.stdout.splitlines()
    assert good == "[]" and bad == "[lib/arm64-v8a/libx.so: segments are aligned to 4096 bytes]"
    assert moved == "[lib/arm64-v8a/libx.so: begins 8 bytes after a page of the APK]"


def _apk(path: Path, aligned: int, past: int) -> Path:
    """An APK with a compressed library and one that begins ``past`` bytes after a page."""
    name = "lib/arm64-v8a/libx.so"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("lib/arm64-v8a/liby.so", elf(16384), compress_type=zipfile.ZIP_DEFLATED)
        opened.writestr("classes.dex", b"dex")
        info = zipfile.ZipInfo(name)
        place = opened.fp.tell() + 30 + len(name) if opened.fp else 0
        info.extra = struct.pack("<HH", 0xD935, -(place + 4 - past) % 16384) + bytes(-(place + 4 - past) % 16384)
        opened.writestr(info, elf(aligned))
    return path
