"""The engine's AAR: the NDK that is found, what is refused, and an archive made by a stand-in for the NDK.

No NDK is at hand. The stand-in is a toolchain file that names Debian's cross compiler for 64-bit Arm Linux, against
ExecuTorch's arm64 wheel: it shows that project, options and archive fit together, not that bionic links.
"""

from __future__ import annotations

import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import edgec
from edgec.apps.embed.console import build_aar
from edgec.apps.embed.embed import embed
from edgec.apps.embed.engine_archive import build_archive, find_ndk
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.page_sizes import PAGE_BYTES, load_alignment, unaligned_libraries
from edgec.apps.embed.written_package import write_package
from edgec.engine.compile.abi import ARM64
from edgec.engine.compile.executorch_wheel import unpack_wheel
from edgec.errors import EdgecError
from edgec.installation import cache_root
from tests.apps.android_bundles import CPU, android_bundle
from tests.apps.android_engine import jni_folders, lacking
from tests.apps.test_engine_project import OWN

EXAMPLE = Path(__file__).parents[2] / "examples" / "tiny-stories"
AARCH64 = 183
TOOLCHAIN = """
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(EDGEC_JNI_INCLUDE "{jni}" CACHE STRING "")
if(NOT ANDROID_ABI STREQUAL "arm64-v8a" OR NOT ANDROID_STL STREQUAL "c++_static")
  message(FATAL_ERROR "the options are not those of an Android app")
endif()
"""
# CMake reads a toolchain file again for its own trial programs, to which it passes only these.
PASSED = "list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ANDROID_ABI ANDROID_STL)\n"


def ndk(folder: Path, toolchain: str = "") -> Path:
    """A folder that looks like an NDK."""
    (folder / "build" / "cmake").mkdir(parents=True)
    (folder / "build" / "cmake" / "android.toolchain.cmake").write_text(toolchain)
    return folder


def package_of(folder: Path, own: bool = True) -> Path:
    """The modules of a bundle, written; ``own``: with the engine."""
    write_package(gradle_modules(android_bundle(folder / "bundle", OWN if own else CPU)), folder / "kit")
    return folder / "kit"


def test_the_named_ndk_comes_before_the_newest_of_the_sdk(tmp_path: Path) -> None:
    older, newer = (ndk(tmp_path / "sdk" / "ndk" / name) for name in ("9.1.2", "28.2.13676358"))
    named = ndk(tmp_path / "named")
    sdk = {"ANDROID_HOME": str(tmp_path / "sdk")}
    assert find_ndk({"ANDROID_NDK_HOME": str(named), **sdk}) == named
    assert find_ndk(sdk) == newer != older
    assert find_ndk({"ANDROID_NDK_HOME": str(tmp_path), **sdk}) == newer


@pytest.mark.parametrize("environment", [{}, {"ANDROID_NDK_HOME": "/nowhere"}, {"ANDROID_HOME": "/nowhere"}])
def test_without_an_ndk_there_is_no_archive(environment: dict[str, str]) -> None:
    with pytest.raises(EdgecError) as caught:
        find_ndk(environment)
    assert (caught.value.code, caught.value.exit_code) == ("E576", 3) and "sdkmanager" in caught.value.fix


def test_only_a_package_with_the_engine_has_one_to_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDROID_NDK_HOME", str(ndk(tmp_path / "ndk")))
    for folder in (tmp_path / "absent", package_of(tmp_path, own=False)):
        with pytest.raises(EdgecError) as caught:
            build_archive(folder)
        assert caught.value.code == "E577"


@pytest.mark.long
@pytest.mark.skipif(lacking() is not None, reason=str(lacking()))
def test_what_the_compiler_says_is_told_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDROID_NDK_HOME", str(ndk(tmp_path / "ndk", 'message(FATAL_ERROR "no such phone")')))
    with pytest.raises(EdgecError) as caught:
        build_archive(package_of(tmp_path))
    assert caught.value.code == "E578" and "no such phone" in str(caught.value.why)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "kit", "ndk"]
    (tmp_path / "there.aar").write_text("mine")
    with pytest.raises(EdgecError) as caught:
        build_archive(tmp_path / "kit", tmp_path / "there.aar")
    assert caught.value.code == "E461" and (tmp_path / "there.aar").read_text() == "mine"


def test_the_apps_take_the_archive_in_the_place_of_a_compilation(tmp_path: Path) -> None:
    package = gradle_modules(android_bundle(tmp_path, OWN))
    for app in ("bench", "sample"):
        assert 'findProperty("engineArchive")?.let { implementation(files(it)) }' in str(
            package.files[f"{app}/build.gradle.kts"]
        )
    model = str(package.files["model/build.gradle.kts"])
    assert model.index('findProperty("engineArchive") == null') < model.index("externalNativeBuild { cmake { path")


@pytest.mark.slow
@pytest.mark.skipif(lacking() is not None, reason=str(lacking()))
def test_an_archive_holds_the_library_for_phones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toolchain = TOOLCHAIN.format(jni=";".join(map(str, jni_folders()))) + PASSED
    monkeypatch.setenv("ANDROID_NDK_HOME", str(ndk(tmp_path / "ndk", toolchain)))
    bundle = edgec.export(EXAMPLE, target="android-cpu", out=tmp_path / "tiny.edgec")
    package = embed(bundle, "android", tmp_path / "kit").package
    wheel = unpack_wheel(ARM64, version("executorch"), cache_root() / "runner")
    build_aar(tmp_path / "kit", None, wheel, as_json=False)
    archive = tmp_path / "kit-engine.aar"
    assert str(archive) in capsys.readouterr().out and unaligned_libraries(archive) == {}
    with zipfile.ZipFile(archive) as opened:
        library = f"jni/arm64-v8a/libedgec_{package.module.rpartition('.')[2]}.so"
        assert set(opened.namelist()) == {"AndroidManifest.xml", "R.txt", "classes.jar", "proguard.txt", library}
        content, rules = opened.read(library), opened.read("proguard.txt").decode()
    assert int.from_bytes(content[18:20], "little") == AARCH64 and (load_alignment(content) or 0) >= PAGE_BYTES
    entry = f"Java_{package.module.replace('.', '_')}_NativeEngine_open"
    # Stripped of everything but what it offers and needs.
    assert entry.encode() in content and b".debug_info" not in content and b".symtab" not in content
    assert f"-keep class {package.module}.NativeEngine" in rules
