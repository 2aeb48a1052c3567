"""Keep the results of finished stages under the hash of their inputs, so that a killed export resumes.

An entry is a folder ``stages/KEY/`` with the stage's files in ``data/`` and their list in ``entry.json``. It appears
all at once, is checked on every read, and is held with a shared lock while a process uses it, so that no other process
prunes it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgec.bundle.atomic import (
    NameTaken,
    clean_leftovers,
    new_folder,
    remove_folder,
    typed_os_errors,
    write_file,
)
from edgec.bundle.checked_files import file_sha256, first_difference, list_files
from edgec.bundle.manifest import FileInfo
from edgec.installation import cache_root

DEFAULT_MAX_BYTES = 20 << 30
_DATA, _ENTRY = "data", "entry.json"
# Where the cap is tiny, another process's equal entry may be pruned before this one holds it: then write again.
_ATTEMPTS = 64
_KEY = re.compile("[0-9a-f]{64}")
_SETTLED_NS = 2_000_000_000


def stage_key(inputs: Mapping[str, Any]) -> str:
    """The sha256 of a stage's inputs as canonical JSON: file hashes, recipe, target, tool versions, own source.

    Raises:
        TypeError: an input is not plain data.
        ValueError: a number is infinite or undefined.
    """
    text = json.dumps(inputs, sort_keys=True, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()  # a path need not be UTF-8


@dataclass(frozen=True)
class StageCache:
    """A content-addressed cache on disk; several processes may share it.

    Attributes:
        root: its folder, made on the first write.
        max_bytes: least recently used entries beyond this many bytes are removed after a write.
    """

    root: Path = field(default_factory=cache_root)
    max_bytes: int = DEFAULT_MAX_BYTES
    _held: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def get(self, key: str) -> Path | None:
        """The folder with a finished stage's files, or None; a damaged entry is removed and counts as None.

        The entry stays until this object is closed or the process ends.
        """
        entry = self._entry(key)
        if not self._hold(key, entry):
            return None
        if not _intact(entry, key):
            self._release(key)
            remove_folder(entry)
            return None
        os.utime(entry)
        return entry / _DATA

    def put(self, key: str, writer: Callable[[Path], None]) -> Path:
        """Run a stage and keep what it writes; if another process was faster, its result, which is equal, is used.

        Args:
            key: see `stage_key`.
            writer: fills an empty folder.

        Raises:
            InputError: E121 or E122, the cache cannot be written.
            FileNotFoundError: something keeps removing the entry.
        """
        for _ in range(_ATTEMPTS):
            if (known := self.get(key)) is not None:
                return known
            self._write(key, writer)
            self.prune()
        raise FileNotFoundError(f"the cache entry {self._entry(key)} keeps vanishing")

    def _write(self, key: str, writer: Callable[[Path], None]) -> None:
        """Write an entry and lock it before it gets its name, so that it is never pruned in between."""
        with ExitStack() as undo, suppress(NameTaken):
            with new_folder(self._entry(key)) as folder:
                (folder / _DATA).mkdir()
                writer(folder / _DATA)
                fields = {"key": key, "files": [file.model_dump() for file in list_files(folder / _DATA)]}
                (folder / _ENTRY).write_bytes(json.dumps(fields, sort_keys=True, indent=1).encode())
                descriptor = os.open(folder, os.O_RDONLY)
                undo.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_SH)
            undo.pop_all()
            self._held[key] = descriptor

    def size_bytes(self) -> int:
        """Bytes of all entries (measured)."""
        return sum(_entry_bytes(entry) for entry in self._entries())

    def prune(self) -> int:
        """Remove the least recently used unlocked entries until the cap is met; returns the bytes freed."""
        entries = sorted(self._entries(), key=_last_use)
        if entries:
            clean_leftovers(entries[0].parent)
        excess, freed = sum(map(_entry_bytes, entries)) - self.max_bytes, 0
        for entry in entries:
            if freed >= excess:
                break
            size = _entry_bytes(entry)
            freed += size if _remove_unheld(entry) else 0
        return freed

    def file_fingerprint(self, path: Path) -> str:
        """The sha256 of a file, remembered by its path, identity, size and times.

        A file touched within the last two seconds is hashed and not remembered: a later write could share its times.
        """
        status = path.stat()
        stamp = [str(path.resolve()), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        memo = self.root / "fingerprints" / stage_key({"stamp": stamp})
        known = _read_text(memo)
        if len(known) == 64:
            return known
        sha256 = file_sha256(path)
        if max(status.st_mtime_ns, status.st_ctime_ns) + _SETTLED_NS < time.time_ns():
            with typed_os_errors(memo):
                memo.parent.mkdir(parents=True, exist_ok=True)
            write_file(memo, sha256.encode())
        return sha256

    def close(self) -> None:
        """Release the entries that this object holds; ``with StageCache(...) as cache`` does it at the end."""
        for key in list(self._held):
            self._release(key)

    def __enter__(self) -> StageCache:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _entry(self, key: str) -> Path:
        return self.root / "stages" / key

    def _entries(self) -> list[Path]:
        folder = self.root / "stages"
        if not folder.is_dir():
            return []
        # Named by a key and holding an entry's list: anything else there does not belong to the cache.
        return [path for path in folder.iterdir() if _KEY.fullmatch(path.name) and (path / _ENTRY).is_file()]

    def _hold(self, key: str, entry: Path) -> bool:
        if key in self._held:
            return True
        try:
            descriptor = os.open(entry, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if not _is_same(descriptor, entry):
            os.close(descriptor)
            return False
        self._held[key] = descriptor
        return True

    def _release(self, key: str) -> None:
        os.close(self._held.pop(key))


def _read_listing(entry: Path) -> tuple[str, list[FileInfo]]:
    fields = json.loads((entry / _ENTRY).read_bytes())
    return fields["key"], [FileInfo.model_validate(file) for file in fields["files"]]


def _intact(entry: Path, key: str) -> bool:
    try:
        listed_key, files = _read_listing(entry)
        return listed_key == key and first_difference(entry / _DATA, files) is None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _entry_bytes(entry: Path) -> int:
    """The size that an entry states; an unreadable one counts as 0 and is found out when it is used."""
    try:
        return sum(file.bytes for file in _read_listing(entry)[1])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0


def _last_use(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0.0


def _is_same(descriptor: int, entry: Path) -> bool:
    """Whether the name still refers to the folder that was locked."""
    try:
        return os.path.samestat(os.fstat(descriptor), entry.stat())
    except OSError:
        return False


def _remove_unheld(entry: Path) -> bool:
    try:
        descriptor = os.open(entry, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_folder(entry)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
