"""The CMake project with which an Android app compiles edgec's engine and kernels for its own artifact."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.engine_sources import (
    engine_sources,
    executorch_operators,
    executorch_version,
    takes_quantized,
)
from edgec.apps.embed.kotlin_text import package_name
from edgec.apps.embed.page_sizes import LibraryPages
from edgec.apps.embed.template_text import fill, load
from edgec.bundle.delegates import XNNPACK
from edgec.bundle.prefix import Files
from edgec.engine.compile.build import SOURCES
from edgec.installation import __version__

FOLDER = "model/src/main/cpp"
NATIVE_CLASSES = ("NativeEngine", "EngineFailed")
"""The wrapper's classes that native code looks up by name."""
SPEECH_CLASSES = (
    *("SoundUnreadable", "SoundEmpty", "SoundTooLong", "SoundRateDiffers", "SoundNotFinite"),
    *("LanguageUnknown", "TranscriptionRefused"),
)
"""Those in addition where the model transcribes speech."""
VISION_CLASSES = ("NativeVision", "ImageTooLarge", "ImagesTooMany", "ImagesMisplaced", "ImageNeeded", "PromptNotWhole")
"""Those in addition where the model takes images."""
_TEMPLATES = "edgec.apps.native"
_CMAKE = ("CMakeLists.txt", "executorch_sources.cmake")
_ENGINE_CMAKE = "CMakeLists.txt"
_JNI, _SPEECH_JNI, _VISION_JNI = "edgec_jni.cpp", "edgec_speech_jni.cpp", "edgec_vision_jni.cpp"
_JNI_SHARED, _DECODER_SHARED = "edgec_jni.h", "edgec_decoder_jni.h"


def engine_project(facts: AppFacts) -> Files:
    """The project's files: path in the Gradle modules -> content, or a file to copy."""
    values = engine_values(facts)
    written = {f"{FOLDER}/{name}": fill(load(_TEMPLATES, name), values).encode() for name in _CMAKE}
    sources = {f"{FOLDER}/edgec/{name}": SOURCES / name for name in (_ENGINE_CMAKE, *_engine_sources(facts))}
    headers = (_JNI_SHARED, *([_DECODER_SHARED] if facts.audio is None else []))
    own = {f"{FOLDER}/{name}": (files(_TEMPLATES) / name).read_bytes() for name in (*_jni(facts), *headers)}
    return {**written, **own, **sources}


def _engine_sources(facts: AppFacts) -> tuple[str, ...]:
    return engine_sources(facts.audio is not None, facts.vision is not None)


def _jni(facts: AppFacts) -> tuple[str, ...]:
    if facts.audio is not None:
        return (_SPEECH_JNI,)
    return (_JNI,) if facts.vision is None else (_JNI, _VISION_JNI)


def native_classes(facts: AppFacts) -> tuple[str, ...]:
    """The wrapper's classes that the native code of a bundle looks up by name."""
    senses = (*(SPEECH_CLASSES if facts.audio else ()), *(VISION_CLASSES if facts.vision else ()))
    return (*NATIVE_CLASSES, *senses)


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
        "runtime_version_text": executorch_version(manifest),
        "engine_library": engine_library(facts),
        "jni_sources": "\n".join(f"  {name}" for name in _jni(facts)),
        # A package's name has only letters and digits, so nothing needs the escapes of JNI's names.
        "jni_prefix": f"Java_{package.replace('.', '_')}_NativeEngine_",
        "vision_prefix": f"Java_{package.replace('.', '_')}_NativeVision_",
        "jni_failure": f"{package.replace('.', '/')}/EngineFailed",
        "with_xnnpack": _switch(XNNPACK in facts.delegates),
        "with_quantized": _switch(takes_quantized(manifest)),
        "root_operators": "\n".join(f"  {name}" for name in operators),
    }


def _switch(value: bool) -> str:
    return "ON" if value else "OFF"
