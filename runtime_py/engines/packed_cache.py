"""The cache of packed weights: two files per artifact, CPU and ExecuTorch, the least recently used ones removed.

XNNPACK multiplies weights in an order that suits the CPU. Packing them takes most of a load, so it is done once and the
result mapped from a file; ``engine/core/packed_file.h`` says when a file is trusted. Matrices of edgec's own
kernels that are made for another processor family lie in a second file, ``….laid.packed``.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from edgec.installation import cache_root
from edgec.runtime_py.engines.engine_library import library

MAX_BYTES: Final = 20 << 30
_PATH_BYTES: Final = 4096


def packed_file(digest: str, root: Path | None = None) -> Path | None:
    """The path of an artifact's packed weights, written or not; None where the cache cannot be written.

    Args:
        digest: sha256 of the artifact, hex.
        root: the cache folder; None: ``EDGEC_CACHE_DIR``.
    """
    folder = (root or cache_root()) / "packed"
    buffer = ctypes.create_string_buffer(_PATH_BYTES)
    length = library().edgec_packed_path(os.fsencode(folder), digest.encode(), buffer, len(buffer))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return Path(os.fsdecode(buffer.value)) if length > 0 else None


def mark_used(packed: Path, max_bytes: int = MAX_BYTES) -> int:
    """Note that an artifact's files were used now, and remove the least recently used others beyond ``max_bytes``.

    Returns:
        Bytes freed. A process that maps a removed file keeps it until it ends.
    """
    used = (packed, packed.with_suffix(f".laid{packed.suffix}"))
    for file in used:
        with suppress(OSError):
            os.utime(_lock(file), follow_symlinks=False)
    files = sorted(packed.parent.glob("*.packed"), key=_last_use)
    excess, freed = sum(map(_bytes, files)) - max_bytes, 0
    for file in files:
        if freed >= excess:
            break
        if file not in used:
            freed += _remove(file)
    return freed


def _lock(packed: Path) -> Path:
    return packed.with_name(packed.name + ".lock")


def _last_use(packed: Path) -> float:
    with suppress(OSError):
        return _lock(packed).lstat().st_mtime
    return 0.0


def _bytes(packed: Path) -> int:
    with suppress(OSError):
        return packed.lstat().st_size
    return 0


def _remove(packed: Path) -> int:
    """Remove one file unless a load is using it; returns its size. The lock stays: others may be waiting for it."""
    with suppress(OSError), _opened(_lock(packed)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        size = _bytes(packed)
        packed.unlink()
        return size
    return 0


def _opened(lock: Path) -> BinaryIO:
    """Open a lock's file, made where it is absent; a link in its place is an OSError, as it may lead anywhere."""
    return os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "rb")
