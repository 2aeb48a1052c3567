"""The operating system's page cache, for cold and warm loads."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path


def drop(path: Path) -> None:
    """Ask the kernel to forget a file's pages (posix_fadvise DONTNEED); needs no privileges."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm(path: Path) -> None:
    """Read a file once, so that its pages are in memory."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def resident_share(path: Path) -> float | None:
    """Share of a file's pages in memory, 0..1, by mincore; None where that is unavailable."""
    size = path.stat().st_size
    mincore = getattr(ctypes.CDLL(None), "mincore", None)
    if mincore is None or size == 0:
        return None
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as view:
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        first = ctypes.c_char.from_buffer(view)
        failed = mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), pages)
        del first
    return None if failed else sum(page & 1 for page in pages) / len(pages)
