"""Give memory that is no longer used back to the system.

Graphs are reference cycles, and the C library keeps freed tensors below its mapping threshold (32 MB, once one of that
size was freed) for itself: an export of Qwen3-0.6B with random weights held 0.9 GB more than it used.
"""

from __future__ import annotations

import ctypes
import gc
from functools import cache
from typing import Any


def return_free_memory() -> None:
    """Collect cycles, then return free pages; where the C library has no way to, it keeps them."""
    gc.collect()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    """Glibc's ``malloc_trim``; None on other systems."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
