"""What lies in the cache folder, kind by kind, and how it is deleted while other processes may be using it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgec.backends.litert.toolkit import CONVERTER_KIND
from edgec.bundle.atomic import remove_folder, typed_os_errors
from edgec.errors import InputError
from edgec.installation import cache_root

# Folder of the cache -> what its entries are.
KINDS: Mapping[str, str] = {
    "stages": "finished stages of exports",
    "packed": "weights packed for this CPU",
    "runner": "compiled engines",
    "executed": "notes that an artifact ran here",
    "fingerprints": "checksums of model files",
    CONVERTER_KIND: "LiteRT's converter",
    "hub": "bundles from the Hugging Face hub",
    "gguf": "configs and tokenizers of GGUF files",
    "measured": "speeds that edgec bench measured, for edgec plan",
}
_DAY_S = 86_400.0


@dataclass(frozen=True)
class CacheEntry:
    """One file or folder of the cache.

    Attributes:
        kind: a key of `KINDS`.
        path: where it lies.
        size_bytes: measured.
        used: time of its last use, seconds since 1970.
    """

    kind: str
    path: Path
    size_bytes: int
    used: float


def cache_entries(root: Path | None = None) -> list[CacheEntry]:
    """Every entry of the cache, kind by kind; locks and files that are just being written are left out.

    Raises:
        InputError: E121, it cannot be read.
    """
    folder = root or cache_root()
    with typed_os_errors(folder):
        return [_entry(kind, path) for kind in KINDS for path in _paths(folder / kind)]


def check_kinds(kinds: Sequence[str]) -> None:
    """Refuse a kind that the cache does not have.

    Raises:
        InputError: E115.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(
                f"{kind!r} is not a kind of cache entry", "--kind", fix=f"use one of {', '.join(KINDS)}", code="E115"
            )


def clean(entries: Sequence[CacheEntry], kinds: Sequence[str] = (), older_than_days: float | None = None) -> int:
    """Delete entries unless a process uses them.

    Args:
        entries: those of `cache_entries`.
        kinds: only these; empty: all.
        older_than_days: only what was last used longer ago.

    Returns:
        Bytes freed.

    Raises:
        InputError: E115, no such kind; E121, an entry cannot be deleted.
    """
    check_kinds(kinds)
    latest = time.time() - (older_than_days or 0.0) * _DAY_S
    chosen = (entry for entry in entries if (not kinds or entry.kind in kinds) and entry.used <= latest)
    return sum(entry.size_bytes for entry in chosen if _remove(entry.path))


def _paths(folder: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError, NotADirectoryError):
        yield from (path for path in sorted(folder.iterdir()) if path.suffix != ".lock" and path.name[0] != ".")


def _entry(kind: str, path: Path) -> CacheEntry:
    files = [path, *(path.rglob("*") if path.is_dir() else ())]
    status = [file.lstat() for file in files if file.exists()]
    lock = _lock(path)
    used = max([one.st_mtime for one in status[:1]] + ([lock.lstat().st_mtime] if lock != path else []), default=0.0)
    return CacheEntry(
        kind, path, sum(one.st_size for one, file in zip(status, files, strict=False) if file.is_file()), used
    )


def _lock(path: Path) -> Path:
    """The file that users of an entry lock: its own lock file where there is one, else itself."""
    lock = path.with_name(path.name + ".lock")
    return lock if lock.exists() else path


def _remove(path: Path) -> bool:
    with typed_os_errors(path):
        try:
            descriptor = os.open(_lock(path), os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_folder(path) if path.is_dir() else path.unlink()
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
    return True
