"""Give memory that is no longer used back to the system.

Graphs are reference cycles, and the C library keeps freed tensors below its mapping threshold (32 MB, once one of that
size was freed) for itself: an export of Qwen3-0.6B with random weights held 0.9 GB more than it used.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

# Objects that are made between two automatic collections; Python's own default is 700.
_SELDOM = 200_000
_M_MMAP_THRESHOLD = -3


def return_free_memory() -> None:
    """Collect cycles, then return free pages; where the C library has no way to, it keeps them."""
    gc.collect()
    trim = _of_c_library("malloc_trim")
    if trim is not None:
        trim(0)


@contextmanager
def few_collections() -> Iterator[None]:
    """Collect cycles seldom while graphs are traced, and leave out what exists already: modules and their classes.

    Tracing makes millions of objects that stay, and each automatic collection looks at all of them again. What is
    cyclic and large is freed by ``return_free_memory``. Where somebody froze objects already, they stay as they are.
    """
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    if not frozen:
        gc.collect()
        gc.freeze()
    gc.set_threshold(_SELDOM, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if not frozen:
            gc.unfreeze()


def map_large_blocks() -> None:
    """Let the C library map each block of 4 MB or more by itself, so that its pages go back when it is freed.

    Glibc raises that limit to the largest block that was freed so far, 32 MB at most. Matrices and the working copies
    of their parts then lie between each other, and gaps of the copies' size stay.
    """
    if (change := _of_c_library("mallopt")) is not None:
        change(_M_MMAP_THRESHOLD, 4 << 20)


@cache
def _of_c_library(name: str) -> Any:
    """A function of glibc; None on other systems."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
