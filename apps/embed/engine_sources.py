"""The sources of edgec's engine and kernels that an app compiles, and the parts of ExecuTorch that it needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from edgec.bundle.manifest import Manifest
from edgec.engine.compile.build import SOURCES
from edgec.errors import InputError

REGISTER = "edgec_register_standard_operators"
"""The C function beside those of ``edgec/engine.h``: registers ``llama::`` operators that the process lacks."""
_OPENS_ENGINE = "edgec_audio_open"
_ENDINGS = (".cpp", ".h")
# Of the sources of both those that execute an artifact, in edgec's engine.
_EXECUTING = frozenset(
    (
        *("encoded_images.cpp", "encoded_images.h", "vision_api.cpp"),
        *("engine_audio.cpp", "audio_model.cpp", "audio_model.h"),
    )
)
# By namespace: where the operators' kernels come from. ExecuTorch's runtime itself has the primitive ones.
_SELECTED, _QUANTIZED = frozenset({"aten", "dim_order_ops"}), "quantized_decomposed"
_BUILT_IN = frozenset({"edgec", "llama", "executorch_prim"})
_PRIMITIVE = re.compile(r"aten::(sym_\w+\.\w+|_local_scalar_dense)")
# struct EdgecModel {    typedef struct { ... } EdgecTensor;    enum EdgecStatus {
_TYPE = re.compile(r"^struct (Edgec\w+) \{|^\} (Edgec\w+);|^enum (Edgec\w+) \{", re.MULTILINE)
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
_OPERATOR = re.compile(r"(\w+)::\w+(\.\w+)?", re.ASCII)


def engine_sources(audio: bool = False, images: bool = False) -> tuple[str, ...]:
    """The engine's and kernels' sources, as paths under ``engine``.

    Args:
        audio: with those of speech.
        images: with those of images.
    """
    folders = ("core", "kernels", "include", *(["audio"] if audio else []), *(["vision"] if images else []))
    paths = (path for name in folders for path in (SOURCES / name).rglob("*") if path.suffix in _ENDINGS)
    return tuple(sorted(path.relative_to(SOURCES).as_posix() for path in paths))


def engine_functions(audio: bool = False, images: bool = False) -> tuple[str, ...]:
    """The names of the engine's C functions, from its headers; ``audio`` and ``images`` as for ``engine_sources``."""
    senses = (*(["include/edgec/audio.h"] if audio else []), *(["include/edgec/vision.h"] if images else []))
    return (*_functions("include/edgec/engine.h", *senses), REGISTER)


def image_sources() -> tuple[str, ...]:
    """The sources that prepare images where the system executes the artifact, as paths under ``engine``."""
    return _without_engine("vision")


def speech_sources() -> tuple[str, ...]:
    """The sources that transcribe where the system executes the artifact, as paths under ``engine``."""
    return _without_engine("audio")


def text_sources() -> tuple[str, ...]:
    """The sources of the text core where the system executes the artifact, as paths under ``engine``."""
    return _without_engine("text")


def _without_engine(folder: str) -> tuple[str, ...]:
    """The sources of a folder that execute nothing, with all that they include."""
    paths = (path for path in (SOURCES / folder).glob("*") if path.suffix in _ENDINGS)
    found: set[Path] = set()
    waiting = [path.resolve() for path in paths if path.name not in _EXECUTING]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _needed(path, (SOURCES / folder).resolve())
    return tuple(sorted(path.relative_to(SOURCES.resolve()).as_posix() for path in found))


def _needed(path: Path, own: Path) -> list[Path]:
    """The files that a source includes, and what defines the functions of a header outside the folder ``own``."""
    names = _INCLUDE.findall(path.read_text(encoding="utf-8"))
    places = ([folder / name for folder in (path.parent, SOURCES, SOURCES / "include")] for name in names)
    headers = [next(place.resolve() for place in each if place.is_file()) for each in places]
    defined = (header.with_suffix(".cpp") for header in headers if header.parent != own)
    return [*headers, *(each for each in defined if each.is_file())]


def image_functions() -> tuple[str, ...]:
    """The names of the C functions that prepare images, from their header."""
    return _functions("include/edgec/images.h")


def speech_functions() -> tuple[str, ...]:
    """The names of the C functions that transcribe over an artifact that the system executes."""
    return tuple(name for name in _functions("include/edgec/audio.h") if name != _OPENS_ENGINE)


def _functions(*headers: str) -> tuple[str, ...]:
    text = "".join((SOURCES / name).read_text(encoding="utf-8") for name in headers)
    return tuple(re.findall(r"^EDGEC_API [^(]*?(edgec_\w+)\(", text, re.MULTILINE))


def shared_types(sources: Sequence[str]) -> tuple[str, ...]:
    """The types of the C interfaces that sources define outside any namespace.

    A linker merges what a compiler makes of them, such as destructors, by their names.
    """
    text = "\n".join((SOURCES / name).read_text(encoding="utf-8") for name in sources)
    return tuple(sorted({name for names in _TYPE.findall(text) for name in names if name}))


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


def takes_quantized(manifest: Manifest) -> bool:
    """Whether the artifact calls ExecuTorch's kernels for quantised tensors."""
    return any(name.startswith(f"{_QUANTIZED}::") for name in manifest.runtime.operators)


def executorch_version(manifest: Manifest) -> str:
    """The version of ExecuTorch that the app fetches.

    Raises:
        InputError: E464, the manifest names none.
    """
    version = manifest.runtime.version
    if re.fullmatch(r"\d+(\.\d+)+[a-z0-9.]*", version, re.ASCII) is None:
        raise _unfit(manifest, f"it names no version of ExecuTorch that an app could fetch: {version!r}")
    return version


def _unfit(manifest: Manifest, why: str) -> InputError:
    fix = "export it again with this version of edgec"
    return InputError("no app glue fits this bundle", manifest.name, why, fix, "E464")
