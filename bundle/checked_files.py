"""List a folder's files by size and sha256, and refuse a folder that differs from its list."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO
from unicodedata import normalize

from edgec.bundle.manifest import FileInfo
from edgec.errors import InputError

_CHUNK = 1 << 20
_FORBIDDEN = frozenset('\\:*?"<>|')
_MAX_PATH = 512
_TWICE = "the name is listed twice or reserved, for a disk that ignores case and Unicode's forms"
_IRREGULAR = "not a plain file (a folder, a link or a device)"


def copy_hashed(source: IO[bytes], target: IO[bytes]) -> tuple[int, str]:
    """Copy a stream in pieces; returns its length in bytes and its sha256."""
    digest, size = hashlib.sha256(), 0
    while piece := source.read(_CHUNK):
        digest.update(piece)
        target.write(piece)
        size += len(piece)
    return size, digest.hexdigest()


def file_sha256(path: Path) -> str:
    """The sha256 of a file, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_files(folder: Path, skip: Iterable[str] = ()) -> list[FileInfo]:
    """Every file below ``folder`` with size and sha256, sorted by path."""
    names = sorted(
        name for name, entry in walk(folder) if entry.is_file(follow_symlinks=False) and name not in set(skip)
    )
    return [
        FileInfo(path=name, bytes=(folder / name).stat().st_size, sha256=file_sha256(folder / name)) for name in names
    ]


@dataclass(frozen=True)
class FileDifference:
    """What is wrong with one file: ``kind`` is ``path``, ``missing``, ``irregular``, ``content`` or ``unlisted``."""

    kind: str
    path: str
    why: str


def first_difference(
    folder: Path, files: Iterable[FileInfo], skip: Iterable[str] = (), contents: bool = True
) -> FileDifference | None:
    """The first way in which ``folder`` differs from its list, or None.

    Args:
        folder: the folder to check; links are never followed.
        files: what it should hold.
        skip: names of plain files that belong to it without being listed.
        contents: also read and hash every file, not only look at its size.

    Raises:
        OSError: something cannot be read.
    """
    listed = list(files)
    checks = (
        bad_paths([file.path for file in listed], skip),
        _unlisted(folder, {file.path for file in listed}, frozenset(skip)),
        _bad_files(folder, listed, contents),
    )
    return next((difference for check in checks for difference in check), None)


def bad_paths(names: Iterable[str], reserved: Iterable[str] = ()) -> Iterator[FileDifference]:
    """Listed paths that are not plain relative ones, that come twice, or that are reserved."""
    seen = {one_name(name) for name in reserved}
    for name in names:
        if why := path_fault(name):
            yield FileDifference("path", name, why)
        if one_name(name) in seen:
            yield FileDifference("path", name, _TWICE)
        seen.add(one_name(name))


def one_name(name: str) -> str:
    """The same for all names that are one to a disk which ignores case and Unicode's forms, as a Mac's and an iPhone's."""
    return normalize("NFC", normalize("NFC", name).casefold())


def path_fault(path: str) -> str | None:
    """Why a listed path is not a plain relative one, or None."""
    parts = path.split("/")
    if not path or len(path) > _MAX_PATH:
        return "the path is empty or too long"
    if PurePosixPath(path).is_absolute() or any(part in ("", ".", "..") for part in parts):
        return "the path leaves the folder or is not in its simplest form"
    if any(character in _FORBIDDEN or not character.isprintable() for character in path):
        return "the path holds a character that is not portable"
    return None


def _unlisted(folder: Path, listed: set[str], skip: frozenset[str]) -> Iterator[FileDifference]:
    folders = {parent.as_posix() for name in listed for parent in PurePosixPath(name).parents}
    files = listed | skip
    for name, entry in walk(folder):
        known = folders if entry.is_dir(follow_symlinks=False) else files
        if name not in known:
            yield FileDifference("unlisted", name, "the list does not name it")
        elif name in skip and not entry.is_file(follow_symlinks=False):
            yield FileDifference("irregular", name, _IRREGULAR)


def _bad_files(folder: Path, files: list[FileInfo], contents: bool) -> Iterator[FileDifference]:
    for file in files:
        path = folder / file.path
        if not os.path.lexists(path):
            yield FileDifference("missing", file.path, "the file is listed but absent")
            continue
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            yield FileDifference("irregular", file.path, _IRREGULAR)
        elif status.st_size != file.bytes:
            yield FileDifference("content", file.path, f"{status.st_size:,} bytes instead of {file.bytes:,}")
        elif contents and file_sha256(path) != file.sha256:
            yield FileDifference("content", file.path, "its sha256 is not the listed one")


def walk(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every entry below ``folder`` by its relative path; links are listed, never entered."""
    pending = [""]
    while pending:
        inside = pending.pop()
        with os.scandir(folder / inside) as entries:
            for entry in entries:
                name = f"{inside}{entry.name}"
                yield name, entry
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{name}/")


def refuse_if(difference: FileDifference | None, where: Path, codes: dict[str, str], fix: str) -> None:
    """Raise an InputError for a difference, its code chosen by kind.

    Raises:
        InputError: ``difference`` is not None.
    """
    if difference is not None:
        raise InputError(
            f"The file {difference.path!r} is not what the list says ({difference.kind}).",
            where=str(where),
            why=difference.why,
            fix=fix,
            code=codes[difference.kind],
        )
