"""The CMake project with which an Android app compiles edgec's engine and kernels for its own artifact."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from edgec.bundle.manifest import Manifest
from edgec.bundle.named_delegates import XNNPACK
from edgec.bundle.prefix import Files
from edgec.devices import runner
from edgec.devices.embed.app_facts import AppFacts
from edgec.devices.embed.kotlin_text import package_name
from edgec.devices.embed.page_sizes import LibraryPages
from edgec.devices.embed.template_text import fill, load
from edgec.errors import InputError
from edgec.installation import __version__

FOLDER = "model/src/main/cpp"
NATIVE_CLASSES = ("NativeEngine", "EngineFailed")
"""The wrapper's classes that native code looks up by name."""
_TEMPLATES = "edgec.devices.embed.native"
_RUNNER = Path(runner.__file__).parent
_CMAKE = ("CMakeLists.txt", "executorch_package.cmake", "executorch_sources.cmake")
_JNI = "edgec_jni.cpp"
_ENDINGS = (".cpp", ".h")
# By namespace: where the operators' kernels come from. ExecuTorch's runtime itself has the primitive ones.
_SELECTED, _QUANTIZED = frozenset({"aten", "dim_order_ops"}), "quantized_decomposed"
_BUILT_IN = frozenset({"edgec", "llama", "executorch_prim"})
_PRIMITIVE = re.compile(r"aten::(sym_\w+\.\w+|_local_scalar_dense)")
_OPERATOR = re.compile(r"(\w+)::\w+(\.\w+)?", re.ASCII)


def engine_project(facts: AppFacts) -> Files:
    """The project's files: path in the Gradle modules -> content, or a file to copy."""
    values = engine_values(facts)
    written = {f"{FOLDER}/{name}": fill(load(_TEMPLATES, name), values).encode() for name in _CMAKE}
    sources = {f"{FOLDER}/edgec/{name}": _RUNNER / name for name in engine_sources()}
    return {**written, f"{FOLDER}/{_JNI}": (files(_TEMPLATES) / _JNI).read_bytes(), **sources}


def engine_sources() -> tuple[str, ...]:
    """The engine's and kernels' sources, as paths under ``devices/runner``."""
    found = (path for name in ("engine", "kernels") for path in (_RUNNER / name).rglob("*") if path.suffix in _ENDINGS)
    return tuple(sorted(path.relative_to(_RUNNER).as_posix() for path in found))


def engine_library(facts: AppFacts) -> str:
    """The library's name for ``System.loadLibrary``: the model's, since an app may hold several."""
    return f"edgec_{package_name(facts.manifest.name).rpartition('.')[2]}"


def engine_pages(facts: AppFacts) -> LibraryPages:
    """What is known about the compiled library's page sizes."""
    source = "compiled by the app with -Wl,-z,max-page-size=16384; checkReleasePageSizes reads the result"
    return LibraryPages(f"lib{engine_library(facts)}.so", "aligned", source)


def engine_values(facts: AppFacts) -> Mapping[str, str]:
    """The text for the placeholders of the project's templates, which all come from the bundle.

    Raises:
        InputError: E464, the artifact calls an operator that neither edgec nor ExecuTorch has, or names no version.
    """
    manifest, package = facts.manifest, package_name(facts.manifest.name)
    operators = executorch_operators(manifest)
    return {
        "edgec_version": __version__,
        "runtime_version_text": _version(manifest),
        "engine_library": engine_library(facts),
        "engine_sources": "\n".join(f"  edgec/{name}" for name in engine_sources() if name.endswith(".cpp")),
        # A package's name has only letters and digits, so nothing needs the escapes of JNI's names.
        "jni_prefix": f"Java_{package.replace('.', '_')}_NativeEngine_",
        "jni_failure": f"{package.replace('.', '/')}/EngineFailed",
        "with_xnnpack": _switch(XNNPACK in facts.delegates),
        "with_quantized": _switch(any(name.startswith(f"{_QUANTIZED}::") for name in manifest.runtime.operators)),
        "root_operators": "\n".join(f"  {name}" for name in operators),
    }


def executorch_operators(manifest: Manifest) -> tuple[str, ...]:
    """The operators whose kernels the app selects from ExecuTorch's, checked, since they become a build's text.

    Raises:
        InputError: E464, an operator that neither edgec nor ExecuTorch has.
    """
    selected = []
    for name in manifest.runtime.operators:
        match = _OPERATOR.fullmatch(name)
        space = match[1] if match is not None else ""
        if space in _SELECTED and not _PRIMITIVE.fullmatch(name):
            selected.append(name)
        elif space not in _BUILT_IN | _SELECTED | {_QUANTIZED}:
            raise _unfit(manifest, f"it calls the operator {name!r}, which neither edgec nor ExecuTorch has")
    return tuple(selected)


def _version(manifest: Manifest) -> str:
    version = manifest.runtime.version
    if re.fullmatch(r"\d+(\.\d+)+[a-z0-9.]*", version, re.ASCII) is None:
        raise _unfit(manifest, f"it names no version of ExecuTorch that an app could fetch: {version!r}")
    return version


def _switch(value: bool) -> str:
    return "ON" if value else "OFF"


def _unfit(manifest: Manifest, why: str) -> InputError:
    fix = "export it again with this version of edgec"
    return InputError("no app glue fits this bundle", manifest.name, why, fix, "E464")
