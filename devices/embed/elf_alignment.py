"""The alignment of native libraries: the smallest one of their loaded segments, read from the ELF headers."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

PAGE_BYTES = 16384
_MAGIC, _LOAD = b"\x7fELF", 1
# By the file's class: width of a word, and the offsets of the segment table, of its counts, and of the alignment.
_FORMS = {1: ("I", 28, 42, 28), 2: ("Q", 32, 54, 48)}


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
