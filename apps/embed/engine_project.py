"""The CMake project with which an Android app compiles edgec's engine and kernels for its own artifact."""

from __future__ import annotations

import re

from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.engine_sources import (
    engine_sources,
    executorch_operators,
    executorch_version,
    takes_quantized,
)
from edgec.apps.embed.kotlin_text import package_name
from edgec.apps.embed.page_sizes import LibraryPages
from edgec.apps.embed.project import ANDROID
from edgec.bundle.delegates import XNNPACK
from edgec.bundle.prefix import Files
from edgec.engine.compile.build import SOURCES

FOLDER = "model/src/main/cpp"
VALUES = "values.cmake"
"""The file of the project with what it reads of the model."""
_PROJECT = ANDROID / FOLDER
_COPIED = ("CMakeLists.txt", "executorch_sources.cmake")
_ENGINE_CMAKE = "CMakeLists.txt"
_JNI, _SPEECH_JNI, _VISION_JNI = "edgec_jni.cpp", "edgec_speech_jni.cpp", "edgec_vision_jni.cpp"
_JNI_SHARED, _DECODER_SHARED = "edgec_jni.h", "edgec_decoder_jni.h"


def engine_project(facts: AppFacts) -> Files:
    """The project's files: path in the Gradle modules -> content, or a file to copy.

    Raises:
        InputError: E464, the artifact calls an operator that neither edgec nor ExecuTorch has, or names no version.
    """
    senses = (facts.audio is not None, facts.vision is not None)
    headers = (_JNI_SHARED, *([_DECODER_SHARED] if facts.audio is None else []))
    copied = {f"{FOLDER}/{name}": (_PROJECT / name).read_bytes() for name in (*_COPIED, *_jni(facts), *headers)}
    sources = {f"{FOLDER}/edgec/{name}": SOURCES / name for name in (_ENGINE_CMAKE, *engine_sources(*senses))}
    return {**copied, f"{FOLDER}/{VALUES}": _values(facts).encode(), **sources}


def _jni(facts: AppFacts) -> tuple[str, ...]:
    if facts.audio is not None:
        return (_SPEECH_JNI,)
    return (_JNI,) if facts.vision is None else (_JNI, _VISION_JNI)


def engine_library(facts: AppFacts) -> str:
    """The library's name for ``System.loadLibrary``: the model's, since an app may hold several."""
    return f"edgec_{package_name(facts.manifest.name).rpartition('.')[2]}"


def engine_pages(facts: AppFacts) -> LibraryPages:
    """What is known about the compiled library's page sizes."""
    source = "compiled by the app with -Wl,-z,max-page-size=16384; checkReleasePageSizes reads the result"
    return LibraryPages(f"lib{engine_library(facts)}.so", "aligned", source)


def _values(facts: AppFacts) -> str:
    """The project's ``values.cmake`` with those of a model."""
    manifest = facts.manifest
    parts = [*(["audio"] if facts.audio else []), *(["vision"] if facts.vision else [])]
    values = {
        "LIBRARY": engine_library(facts),
        "PACKAGE": package_name(manifest.name),
        "ENGINE": '"${CMAKE_CURRENT_LIST_DIR}/edgec"',
        "PARTS": f'"{";".join(parts)}"',
        "JNI": " ".join(_jni(facts)),
        "EXECUTORCH_VERSION": f'"{executorch_version(manifest)}"',
        "XNNPACK": _switch(XNNPACK in facts.delegates),
        "ROOT_OPERATORS": "\n" + "".join(f"  {name}\n" for name in executorch_operators(manifest)),
        "QUANTIZED_OPERATORS": _switch(takes_quantized(manifest)),
    }
    text = (_PROJECT / VALUES).read_text(encoding="utf-8")
    return re.sub(r"^set\(EDGEC_(\w+)\s[^)]*\)$", lambda found: _set(found[1], values[found[1]]), text, flags=re.M)


def _set(name: str, value: str) -> str:
    return f"set(EDGEC_{name}{'' if value.startswith(chr(10)) else ' '}{value})"


def _switch(value: bool) -> str:
    return "ON" if value else "OFF"
