"""Whether an app's native libraries suit phones with pages of 16 KB, which Google Play requires for Android 15.

Archives that Gradle or Maven have on this machine are read; for others, what is publicly known about their versions is
used (``android_libraries.toml``). A library's alignment is the smallest one of its loaded segments, by its ELF headers.
"""

from __future__ import annotations

import os
import re
import struct
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from edgec.bundle.folder import Bundle
from edgec.errors import InputError

PAGE_BYTES = 16384
_MAGIC, _LOAD = b"\x7fELF", 1
# By the file's class: width of a word, and the offsets of the segment table, of its counts, and of the alignment.
_FORMS = {1: ("I", 28, 42, 28), 2: ("Q", 32, 54, 48)}
# Android 15: from this target SDK on, Google Play requires aligned libraries.
ASKED_FROM_SDK = 35
AlignmentStatus = Literal["aligned", "unaligned", "unknown"]


@dataclass(frozen=True)
class LibraryPages:
    """What is known about an archive's native libraries.

    Attributes:
        archive: GROUP:NAME:VERSION.
        status: whether they are aligned to pages of 16 KB.
        source: where that is known from.
    """

    archive: str
    status: AlignmentStatus
    source: str


@cache
def android_libraries() -> Mapping[str, Any]:
    """What is known of native libraries, from ``android_libraries.toml``."""
    text = (files(__package__) / "android_libraries.toml").read_text(encoding="utf-8")
    libraries: Mapping[str, Any] = tomllib.loads(text)["libraries"]
    return libraries


def library_pages(archives: Iterable[str]) -> list[LibraryPages]:
    """What is known about each archive, given as GROUP:NAME:VERSION."""
    return [_measured(each) or _published(each) for each in archives]


def check_page_sizes(libraries: Iterable[LibraryPages], bundle: Bundle, target_sdk: int) -> None:
    """Refuse native libraries that Google Play would refuse.

    Raises:
        InputError: E471, the app is for Android 15 or later and a library is known not to be aligned to 16 KB.
    """
    if target_sdk < ASKED_FROM_SDK:
        return
    wrong = next((each for each in libraries if each.status == "unaligned"), None)
    if wrong is not None:
        raise _refused(wrong.archive, wrong.source, "export the model again with a newer version of this runtime")
    for file in bundle.manifest.files:
        _check_file(bundle.path / file.path)


def _check_file(path: Path) -> None:
    with path.open("rb") as opened:
        content = opened.read() if opened.read(4) == b"\x7fELF" and not opened.seek(0) else b""
    fix = "export the model again without it"
    try:
        aligned = load_alignment(content)
    except ValueError as error:
        raise _refused(str(path), str(error), fix) from error
    if aligned is not None and aligned < PAGE_BYTES:
        raise _refused(str(path), f"it is aligned to {aligned} bytes", fix)


def _refused(where: str, why: str, fix: str) -> InputError:
    return InputError(
        "Google Play accepts no app for Android 15 with this native library: it is not aligned to pages of 16 KB",
        where=where,
        why=why,
        fix=f"{fix}, or use --target-sdk 34 for an app that is not published on Google Play",
        code="E471",
    )


def _published(archive: str) -> LibraryPages:
    group, name, version = archive.split(":", 2)
    known = android_libraries().get(f"{group}:{name}", {})
    source = known.get("source", "nothing is known publicly")
    numbers = _numbers(version)
    if numbers and numbers < _numbers(known.get("unaligned_below", "")):
        return LibraryPages(archive, "unaligned", source)
    if numbers and "aligned_from" in known and numbers >= _numbers(known["aligned_from"]):
        return LibraryPages(archive, "aligned", source)
    return LibraryPages(archive, "unknown", source)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _measured(archive: str) -> LibraryPages | None:
    """The page sizes read from the archive itself, where it is on this machine."""
    path = next((path for path in _local(archive) if path.is_file()), None)
    if path is None:
        return None
    try:
        wrong = unaligned_libraries(path)
    except ValueError as error:
        return LibraryPages(archive, "unknown", f"{path.name} on this machine cannot be read: {error}")
    told = "".join(f"; {name} is aligned to {aligned} bytes" for name, aligned in wrong.items())
    return LibraryPages(archive, "unaligned" if wrong else "aligned", f"read in {path.name} on this machine{told}")


def _local(archive: str) -> Iterable[Path]:
    """The paths where Gradle and Maven keep an archive."""
    group, name, version = archive.split(":", 2)
    gradle = Path(os.environ.get("GRADLE_USER_HOME") or Path.home() / ".gradle")
    file = f"{name}-{version}.aar"
    yield from sorted((gradle / "caches/modules-2/files-2.1" / group / name / version).glob(f"*/{file}"))
    yield Path.home() / ".m2/repository" / group.replace(".", "/") / name / version / file


def load_alignment(content: bytes) -> int | None:
    """The alignment in bytes of every loaded segment; None for a file that is not ELF, or loads nothing.

    Raises:
        ValueError: an ELF file that ends too early.
    """
    if content[:4] != _MAGIC:
        return None
    try:
        return min(_alignments(content), default=None)
    except (struct.error, KeyError, IndexError) as error:
        raise ValueError(f"a broken ELF header: {error}") from error


def _alignments(content: bytes) -> Iterator[int]:
    word, table, counts, alignment = _FORMS[content[4]]
    order = "<" if content[5] == 1 else ">"
    (start,) = struct.unpack_from(order + word, content, table)
    size, count = struct.unpack_from(f"{order}HH", content, counts)
    for segment in range(start, start + size * count, size):
        if struct.unpack_from(f"{order}I", content, segment)[0] == _LOAD:
            yield struct.unpack_from(order + word, content, segment + alignment)[0]


def unaligned_libraries(archive: Path, page_bytes: int = PAGE_BYTES) -> dict[str, int]:
    """The 64-bit Android libraries in an archive (.aar, .apk) that are aligned to less than a page: path -> alignment.

    Raises:
        ValueError: the archive or a library in it cannot be read.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            names = [name for name in opened.namelist() if name.endswith(".so") and "/arm64-v8a/" in f"/{name}"]
            alignments = {name: load_alignment(opened.read(name)) for name in names}
    except (OSError, zipfile.BadZipFile) as error:
        raise ValueError(str(error)) from error
    return {name: aligned for name, aligned in alignments.items() if aligned is not None and aligned < page_bytes}
