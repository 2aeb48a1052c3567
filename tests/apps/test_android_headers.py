"""The sources that an Android app compiles pass Clang's checks for Android 8.0 (API 26).

Clang and libc++ are Zig's. The headers of the C library are bionic's where EDGEC_BIONIC names them: a checkout of
AOSP's ``platform/bionic``, or ``sysroot/usr/include`` of an NDK. Elsewhere Zig's headers of musl stand in for them,
which leaves unchecked what bionic lacks or declares otherwise, and from which API level on. Nothing is linked.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.written_package import write_package
from edgec.bundle.manifest import Runtime
from tests.apps.android_bundles import CPU, android_bundle
from tests.apps.android_engine import jni_folders
from tests.apps.audio_bundles import TIMED_CONFIG, WHISPER, audio_placeholder

# Zig states these while it compiles libc++ for a system; the values are those of NDK r28's __config_site.
LIBCXX = {
    **{f"HAS_{name}": 1 for name in ("THREADS", "THREAD_API_PTHREAD", "FILESYSTEM", "LOCALIZATION", "UNICODE")},
    **{f"HAS_{name}": 1 for name in ("WIDE_CHARACTERS", "TERMINAL", "MONOTONIC_CLOCK", "RANDOM_DEVICE")},
    **{f"HAS_THREAD_API_{name}": 0 for name in ("EXTERNAL", "WIN32", "C11")},
    **{f"HAS_{name}": 0 for name in ("TIME_ZONE_DATABASE", "VENDOR_AVAILABILITY_ANNOTATIONS")},
    **{"ABI_VERSION": 1, "ABI_NAMESPACE": "__ndk1", "PSTL_BACKEND_SERIAL": 1},
    "HARDENING_MODE_DEFAULT": "_LIBCPP_HARDENING_MODE_NONE",
    "ASSERTION_SEMANTIC_DEFAULT": "_LIBCPP_ASSERTION_SEMANTIC_IGNORE",
}
ANDROID = "#if !defined(__ANDROID__) || __ANDROID_API__ != 26 || !defined(__aarch64__)\n#error\n#endif\n"
# Bionic has it from API level 28 on.
TOO_NEW = "#include <sys/random.h>\nint random_bytes(void* to) { return getentropy(to, 8); }\n"


@dataclass(frozen=True)
class Clang:
    """Clang for 64-bit Android.

    Attributes:
        program: Zig, which contains Clang.
        headers: folders of the C library's headers, the first of them its own.
        bionic: whether they are bionic's.
    """

    program: str
    headers: tuple[Path, ...]
    bionic: bool

    def said(self, source: Path, *flags: str) -> str:
        """What Clang says about a source; empty where all is well."""
        library = _zig_library(self.program)
        system = (library / "libcxx" / "include", library / "include", *self.headers)
        states = [f"-D_LIBCPP_{name}={value}" for name, value in LIBCXX.items()]
        states.append(f"-D_LIBCPP_HAS_MUSL_LIBC={int(not self.bionic)}")
        line = [self.program, "clang", "--driver-mode=g++", "--target=aarch64-linux-android26", "-fsyntax-only"]
        line += ["-std=c++17", "-Wall", "-Werror", "-ffp-contract=off", "-nostdinc", *states]
        line += [f"-isystem{path}" for path in system]
        done = subprocess.run([*line, *flags, str(source)], capture_output=True, text=True, check=False)
        return done.stderr or ("" if done.returncode == 0 else f"{source.name}: exit code {done.returncode}")


def _zig() -> str | None:
    """Zig: EDGEC_ZIG or the package ziglang."""
    spec = find_spec("ziglang")
    installed = Path(spec.origin).with_name("zig") if spec is not None and spec.origin else None
    return os.environ.get("EDGEC_ZIG") or (str(installed) if installed is not None else None)


def _zig_library(program: str) -> Path:
    where = subprocess.run([program, "env"], capture_output=True, text=True, check=True).stdout
    library = re.search(r'lib_dir"?\s*[:=]\s*"([^"]+)"', where)
    assert library is not None
    return Path(library[1])


@pytest.fixture(scope="module")
def clang() -> Clang:
    program, named = _zig(), os.environ.get("EDGEC_BIONIC")
    if program is None:
        pytest.skip("neither EDGEC_ZIG nor ziglang")
    if named is None:
        system = ("aarch64-linux-musl", "generic-musl", "aarch64-linux-any", "any-linux-any")
        return Clang(program, tuple(_zig_library(program) / "libc" / "include" / name for name in system), False)
    source, kernel = Path(named) / "libc", Path(named) / "libc" / "kernel"
    if source.is_dir():
        folders = (kernel / name for name in ("uapi", "uapi/asm-arm64", "android/uapi"))
        return Clang(program, (source / "include", *folders), True)
    return Clang(program, (Path(named), Path(named) / "aarch64-linux-android"), True)


@pytest.mark.slow
def test_it_is_androids_clang_and_knows_what_api_26_lacks(clang: Clang, tmp_path: Path) -> None:
    source = tmp_path / "source.cpp"
    source.write_text(ANDROID)
    assert clang.said(source) == ""
    source.write_text("#include <string>\nint length = std::string().size(1);\n")
    assert "error" in clang.said(source)
    if clang.bionic:
        source.write_text(TOO_NEW)
        assert "error: use of undeclared identifier 'getentropy'" in clang.said(source)


@pytest.mark.slow
def test_every_source_of_an_app_passes(clang: Clang, tmp_path: Path) -> None:
    if not jni_folders() and not (clang.headers[0] / "jni.h").is_file():
        pytest.skip("no jni.h")
    hearing = audio_placeholder(tmp_path / "bundle", "android-cpu", WHISPER, TIMED_CONFIG)
    write_package(gradle_modules(hearing), tmp_path / "kit")
    project = tmp_path / "kit" / "model" / "src" / "main" / "cpp"
    own = Runtime(name="executorch", version="1.5.1", backends=["XnnpackBackend"], operators=["edgec::rope.out"])
    decoder = gradle_modules(android_bundle(tmp_path / "decoder", CPU, runtime=own))
    for name in ("edgec_jni.cpp", "edgec_decoder_jni.h"):
        functions = decoder.files[f"model/src/main/cpp/{name}"]
        assert isinstance(functions, bytes)
        (project / name).write_bytes(functions)
    spec = find_spec("executorch")
    assert spec is not None and spec.submodule_search_locations
    headers = Path(next(iter(spec.submodule_search_locations))) / "include"
    c10 = headers / "executorch" / "runtime" / "core" / "portable_type" / "c10"
    java = () if (clang.headers[0] / "jni.h").is_file() else jni_folders()
    flags = [f"-I{path}" for path in (project / "edgec", project / "edgec" / "kernels")]
    flags += [f"-isystem{path}" for path in (headers, c10, *java)]
    flags += ["-DC10_USING_CUSTOM_GENERATED_MACROS", "-DEDGEC_EXECUTORCH_VERSION=1.5.1"]
    flags += ["-DEDGEC_JNI_PREFIX=Java_app_NativeEngine_", '-DEDGEC_JNI_FAILURE="app/EngineFailed"']
    sources = sorted(project.rglob("*.cpp"))
    assert len(sources) > 30 and project / "edgec_speech_jni.cpp" in sources
    assert "".join(clang.said(source, *flags) for source in sources) == ""
