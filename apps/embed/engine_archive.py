"""``edgec runner build --aar``: the engine of an Android package, compiled by the NDK into an archive for apps."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgec.apps.embed.engine_project import FOLDER, VALUES
from edgec.apps.embed.gradle_properties import version
from edgec.apps.embed.page_sizes import PAGE_BYTES, load_alignment
from edgec.apps.embed.project import ANDROID, PACKAGE
from edgec.bundle.atomic import typed_os_errors
from edgec.errors import InputError, ToolError

ABI = "arm64-v8a"
_TOOLCHAIN = Path("build", "cmake", "android.toolchain.cmake")
_OWN_PATH = ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "ANDROID_NDK")
_SDK_PATH = ("ANDROID_HOME", "ANDROID_SDK_ROOT")
_LOG_LINES = 12
# A ZIP's oldest date: the same sources give the same archive.
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class EngineArchive:
    """An archive that was written: its path, and the library inside."""

    path: Path
    library: str
    library_bytes: int


def build_archive(
    package: Path,
    out: Path | None = None,
    executorch: Path | None = None,
    announce: Callable[[str], None] = lambda text: None,
) -> EngineArchive:
    """Compile the engine of what ``edgec embed --platform android`` wrote, and pack it as an AAR.

    Args:
        package: the package's folder.
        out: the archive; by default NAME.aar next to the package.
        executorch: a checkout of ExecuTorch, or a package of its libraries; by default CMake fetches it.
        announce: called once, before the compilation begins.

    Raises:
        InputError: E577 the folder is not such a package, E461 the output exists, E121 or E122 it cannot be written.
        ToolError: E576 no NDK or no CMake, E578 the engine could not be compiled.
    """
    library, owner = _names(package)
    path = out if out is not None else package.with_name(f"{package.name}-engine.aar")
    if os.path.lexists(path):
        raise InputError("the output exists already", str(path), fix="remove it, or name another file", code="E461")
    ndk, cmake = find_ndk(), _cmake()
    announce(f"compiling the engine for {ABI} with the NDK in {ndk}")
    with tempfile.TemporaryDirectory() as folder:
        made = _compile(package / FOLDER, library, ndk, cmake, executorch, Path(folder))
    _check_pages(made, library)
    with typed_os_errors(path):
        _write(path, _contents(made, library, owner))
    return EngineArchive(path, f"lib{library}.so", len(made))


def find_ndk(environment: Mapping[str, str] = os.environ) -> Path:
    """The NDK that the environment names, else the newest one of the Android SDK.

    Raises:
        ToolError: E576, there is none.
    """
    named = [Path(environment[name]) for name in _OWN_PATH if environment.get(name)]
    kits = [Path(environment[name]) / "ndk" for name in _SDK_PATH if environment.get(name)]
    installed = (sorted(kit.iterdir(), key=_version, reverse=True) for kit in kits if kit.is_dir())
    for folder in (*named, *(each for kit in installed for each in kit)):
        if (folder / _TOOLCHAIN).is_file():
            return folder
    wanted = version("Ndk")
    why = f"none of {', '.join((*_OWN_PATH, *_SDK_PATH))} leads to one" + (f"; {named[0]} is none" if named else "")
    fix = f"install it (sdkmanager 'ndk;{wanted}') and set ANDROID_NDK_HOME"
    raise ToolError("There is no Android NDK.", "ANDROID_NDK_HOME", why, fix, "E576")


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", folder.name)))


def _cmake() -> str:
    cmake = shutil.which("cmake")
    if cmake is None:
        raise ToolError("There is no CMake.", "cmake", "it is not on the PATH", "pip install cmake", "E576")
    return cmake


def _names(package: Path) -> tuple[str, str]:
    """The library's name and the Kotlin package that owns it, as the package's own CMake project states them."""
    values = package / FOLDER / VALUES
    text = values.read_text(encoding="utf-8") if values.is_file() else ""
    library = re.search(r"^set\(EDGEC_LIBRARY (edgec_[a-z0-9]+)\)$", text, re.MULTILINE)
    owner = re.search(r"^set\(EDGEC_PACKAGE ([a-z0-9.]+)\)$", text, re.MULTILINE)
    if library is None or owner is None:
        why = f"{FOLDER} holds no project of edgec's engine"
        fix = "name a folder that 'edgec embed BUNDLE --platform android' wrote for a bundle with edgec's kernels"
        raise InputError("the folder has no engine to compile", str(package), why, fix, "E577")
    return library[1], owner[1]


def _compile(sources: Path, library: str, ndk: Path, cmake: str, executorch: Path | None, build: Path) -> bytes:
    settings = {
        "CMAKE_TOOLCHAIN_FILE": ndk / _TOOLCHAIN,
        "CMAKE_BUILD_TYPE": "Release",
        "ANDROID_ABI": ABI,
        "ANDROID_PLATFORM": f"android-{version('MinSdk')}",
        "ANDROID_STL": "c++_static",
        # The NDK compiles with debug information, which no app ships.
        "CMAKE_SHARED_LINKER_FLAGS": "-s",
        "PYTHON_EXECUTABLE": sys.executable,
        **({"EXECUTORCH_ROOT": executorch.resolve()} if executorch is not None else {}),
    }
    options = [f"-D{name}={value}" for name, value in settings.items()]
    _call([cmake, "-S", str(sources), "-B", str(build), *options], sources)
    jobs = str(os.cpu_count() or 1)
    _call([cmake, "--build", str(build), "--target", library, "--parallel", jobs], sources)
    return (build / f"lib{library}.so").read_bytes()


def _call(line: Sequence[str], sources: Path) -> None:
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-_LOG_LINES:]
        why = "\n".join(said) or f"exit status {done.returncode}"
        fix = "see the compiler's output; ExecuTorch can be given with --executorch FOLDER"
        raise ToolError("The engine could not be compiled.", str(sources), why, fix, "E578")


def _check_pages(library: bytes, name: str) -> None:
    aligned = load_alignment(library)
    if aligned is None or aligned < PAGE_BYTES:
        why = f"its segments are aligned to {aligned} bytes, and Google Play asks for {PAGE_BYTES}"
        raise ToolError("The engine could not be compiled.", f"lib{name}.so", why, "use NDK r28 or later", "E578")


def _contents(library: bytes, name: str, owner: str) -> Iterator[tuple[str, bytes]]:
    """The archive's files; it has no classes, for those are the package's Kotlin, but the format asks for some."""
    manifest = f'<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="{owner}.engine" />\n'
    yield "AndroidManifest.xml", f'<?xml version="1.0" encoding="utf-8"?>\n{manifest}'.encode()
    yield "R.txt", b""
    yield "classes.jar", _EMPTY_ZIP
    yield "proguard.txt", _keep_rules(owner).encode()
    yield f"jni/{ABI}/lib{name}.so", library


def _keep_rules(owner: str) -> str:
    """The project's rules for the classes that the engine looks up by name."""
    rules = (ANDROID / "model" / "consumer-rules.pro").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(rule.replace(PACKAGE, owner) for rule in rules if rule.startswith(f"-keep class {PACKAGE}."))


_EMPTY_ZIP = b"PK\x05\x06" + bytes(18)


def _write(path: Path, contents: Iterator[tuple[str, bytes]]) -> None:
    """Write the archive under another name and rename it, so that it appears whole or not at all."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(aside, "w") as archive:
            for name, content in contents:
                archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
        aside.rename(path)
    finally:
        aside.unlink(missing_ok=True)
