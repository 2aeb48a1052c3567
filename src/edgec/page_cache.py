"""A file's pages in memory: how many there are, and how to drop and to read them, for cold and warm loads."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

_MS_INVALIDATE: Final = 2


def drop_pages(path: Path) -> None:
    """Ask the kernel to forget a file's pages; needs no privileges. `resident_share` tells whether it did.

    Linux: `posix_fadvise(DONTNEED)`. macOS, which has none: `msync(MS_INVALIDATE)` of the mapped file.
    """
    with path.open("rb") as file:
        os.fsync(file.fileno())
        if sys.platform != "darwin":
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return
    with _mapped(path) as (address, size):
        c_library().msync(address, ctypes.c_size_t(size), _MS_INVALIDATE)


def warm_pages(path: Path) -> None:
    """Read a file once, so that its pages are in memory."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def resident_share(path: Path) -> float | None:
    """Share of a file's pages in memory, 0..1, by `mincore`; None where that is unavailable."""
    mincore = getattr(c_library(), "mincore", None)
    if mincore is None or path.stat().st_size == 0:
        return None
    with _mapped(path) as (address, size):
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        failed = mincore(address, ctypes.c_size_t(size), pages)
    return None if failed else sum(page & 1 for page in pages) / len(pages)


@contextmanager
def _mapped(path: Path) -> Iterator[tuple[ctypes.c_void_p, int]]:
    """The address and the size of a file in memory."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as view:
        first = ctypes.c_char.from_buffer(view)
        try:
            yield ctypes.c_void_p(ctypes.addressof(first)), len(view)
        finally:
            del first


@cache
def c_library() -> Any:
    """The C library of this process."""
    return ctypes.CDLL(None)
