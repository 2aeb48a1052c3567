"""Files and folders that appear whole or not at all.

Everything is written to a hidden sibling first, flushed to the disk, then renamed. A sibling is locked and its name
carries the process that writes it, so that leftovers of a killed process are recognised and removed by the next one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from edgec.bundle.owner import OWNER, held, is_held, own_mark, owned_by_running
from edgec.errors import InputError
from edgec.installation import CACHE_FIX, cache_root

_NEW, _OLD = "new", "old"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SIBLING = re.compile(rf"\.(?P<final>.+)~edgec~(?P<kind>new|old)~(?P<host>[^~]*)~{OWNER}~[0-9a-f]+")
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")
_AT_FDCWD = -100
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux and RENAME_SWAP of macOS


class NameTaken(Exception):
    """The name of a new folder is taken already."""


@contextmanager
def typed_os_errors(where: Path) -> Iterator[None]:
    """Turn an OSError into E122 (disk full) or E121 (cannot be written)."""
    try:
        with typed_disk_full(where):
            yield
    except OSError as error:
        raise _unwritable(where, error) from error


@contextmanager
def typed_disk_full(where: Path) -> Iterator[None]:
    """Turn only a full disk into E122; every other error passes."""
    try:
        with _errors_of_safetensors():
            yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise _disk_full(where, error) from error


@contextmanager
def _errors_of_safetensors() -> Iterator[None]:
    """Raise safetensors' own errors as the OSError whose number stands in their text."""
    try:
        yield
    except SafetensorError as error:
        number = _SYSTEM_ERROR.search(str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error


def _disk_full(where: Path, error: OSError) -> InputError:
    return InputError(
        "The disk is full.",
        where=str(where),
        why=f"{error.strerror}; {free_bytes(where):,} bytes are free (measured)",
        fix="free some space, or choose another folder with --out (and EDGEC_CACHE_DIR for the stage cache)",
        code="E122",
    )


def _unwritable(where: Path, error: OSError) -> InputError:
    what, fix = "The output cannot be written.", "choose a folder you may write to with --out"
    if where.absolute().is_relative_to(cache_root().absolute()):
        what, fix = "The cache folder cannot be used.", CACHE_FIX
    return InputError(what, str(where), error.strerror or str(error), fix, "E121")


def existing_parent(path: Path) -> Path:
    """The nearest folder above ``path`` that exists."""
    return next((parent for parent in path.absolute().parents if os.path.exists(parent)), Path("/"))


def free_bytes(path: Path) -> int:
    """Bytes this user may still write on the file system that holds (or would hold) ``path``."""
    return shutil.disk_usage(path if os.path.exists(path) else existing_parent(path)).free


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Flush every file and folder below ``folder``, and ``folder`` itself."""
    for parent, _, names in os.walk(folder):
        for name in names:
            with open(Path(parent, name), "rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(parent))


def write_file(path: Path, *pieces: bytes | memoryview) -> None:
    """Write ``path`` so that a reader sees the old bytes or the new ones (all pieces in a row), never a part.

    Raises:
        InputError: E121 or E122.
    """
    with typed_os_errors(path):
        clean_siblings(path)
        aside = _sibling(path, _NEW)
        try:
            with open(aside, "xb") as file, held(aside):
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
                os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)
        sync_folder(path.parent)


@contextmanager
def new_folder(path: Path, replace: bool = False) -> Iterator[Path]:
    """A folder to fill; when the block ends without an error it becomes ``path``, otherwise it vanishes.

    Args:
        path: the final name; missing parents are made.
        replace: swap out what is there; without it an existing ``path`` is left alone and NameTaken is raised.

    Raises:
        InputError: E121 or E122 where the folder cannot be made, flushed or renamed, and E122 from the block.
        NameTaken: ``path`` exists and ``replace`` is off.
    """
    with typed_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        clean_siblings(path)
        aside = _sibling(path, _NEW)
        aside.mkdir()
    try:
        with held(aside):
            with typed_disk_full(path):
                yield aside
            with typed_os_errors(path):
                sync_tree(aside)
            _publish(aside, path, replace)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _publish(aside: Path, path: Path, replace: bool) -> None:
    if not replace:
        _rename_new(aside, path)
        return
    with typed_os_errors(path):
        if os.path.lexists(path):
            _swap(aside, path)
        else:
            os.rename(aside, path)
        sync_folder(path.parent)


def _rename_new(aside: Path, path: Path) -> None:
    """Rename onto a free name; another process may take it between the check and the rename."""
    if os.path.lexists(path):
        raise NameTaken(path)
    try:
        os.rename(aside, path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise _unwritable(path, error) from error
        raise NameTaken(path) from error
    sync_folder(path.parent)


def _swap(aside: Path, path: Path) -> None:
    """Exchange in one step where the kernel can; otherwise in two, which `clean_siblings` can finish after a kill."""
    if _exchange(aside, path):
        return
    old = _sibling(path, _OLD)
    os.rename(path, old)
    os.rename(aside, path)
    shutil.rmtree(old, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Linux: ``renameat2(RENAME_EXCHANGE)``, macOS: ``renamex_np(RENAME_SWAP)``; False where one cannot."""
    if sys.platform == "darwin":
        rename, paths = _of_c_library("renamex_np"), (bytes(first), bytes(second))
    else:
        rename, paths = _of_c_library("renameat2"), (_AT_FDCWD, bytes(first), _AT_FDCWD, bytes(second))
    return rename is not None and rename(*paths, _EXCHANGE) == 0


@cache
def _of_c_library(name: str) -> Any:
    return getattr(ctypes.CDLL(None, use_errno=True), name, None)


def remove_folder(path: Path) -> None:
    """Remove a folder so that no reader ever sees a part of it; nothing happens where it is gone already."""
    doomed = _sibling(path, _NEW)
    with suppress(FileNotFoundError):
        os.rename(path, doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def clean_siblings(path: Path) -> None:
    """Remove what dead processes left next to ``path``; a swap they did not finish is undone."""
    for leftover in _leftovers(path.parent):
        if leftover.final == path:
            _clean(leftover)


def clean_leftovers(folder: Path) -> None:
    """Remove everything that dead processes left in ``folder``, whatever it was meant to become."""
    for leftover in _leftovers(folder):
        _clean(leftover)


@dataclass(frozen=True)
class _Leftover:
    """A hidden sibling that a dead process left, and the path that it was made for."""

    path: Path
    final: Path
    kind: str


def _leftovers(folder: Path) -> list[_Leftover]:
    names = [(folder / name, _SIBLING.fullmatch(name)) for name in sorted(os.listdir(folder))]
    return [
        _Leftover(path, folder / name["final"], name["kind"])
        for path, name in names
        if name and name["host"] == _host() and not owned_by_running(name) and not is_held(path)
    ]


def _clean(leftover: _Leftover) -> None:
    if leftover.kind == _OLD and not os.path.lexists(leftover.final):
        os.rename(leftover.path, leftover.final)
    elif leftover.path.is_dir():
        shutil.rmtree(leftover.path, ignore_errors=True)
    else:
        leftover.path.unlink(missing_ok=True)


def _sibling(path: Path, kind: str) -> Path:
    parts = (kind, _host(), *own_mark(), secrets.token_hex(4))
    return path.parent / f".{path.name}~edgec~{'~'.join(parts)}"


def _host() -> str:
    return socket.gethostname().replace("~", "-").replace("/", "-")
