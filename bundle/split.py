"""Cut a bundle into parts for a download: its files one after the other, and a list with the sha256 of every part."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from edgec.bundle.atomic import NameTaken, new_folder, typed_os_errors
from edgec.bundle.canonical import manifest_sha256
from edgec.bundle.checked_files import file_sha256
from edgec.bundle.folder import (
    MANIFEST,
    SIGNATURE,
    Bundle,
    check_output,
    open_bundle,
    unreadable_as_error,
)
from edgec.bundle.manifest import FileInfo
from edgec.bundle.parts_list import (
    MAX_COUNT,
    MAX_PART_BYTES,
    PARTS_LIST,
    PartInfo,
    PartsList,
    check_parts_list,
    parts_text,
)
from edgec.errors import InputError

_PIECE = 1 << 20
Told = Callable[[int, int], None]
"""Takes the bytes that are done, and those of all."""


def split_bundle(
    bundle: Path, out: Path, part_bytes: int = MAX_PART_BYTES, told: Told = lambda done, of: None
) -> PartsList:
    """Write a bundle's parts and their list into a folder, whole or not at all; the bundle is checked before.

    Args:
        bundle: the bundle; its signature, where it has one, is a file like the others.
        out: the folder to make.
        part_bytes: of every part but the last, which may be smaller.
        told: called with the progress.

    Returns:
        The list that was written.

    Raises:
        InputError: E130 to E137 the bundle is not intact, E120 ``out`` exists, E121 or E122 it cannot be written, E683
            a file of a bundle that no list can name, E687 the bundle was changed meanwhile, E688 no such parts.
    """
    _check_part_bytes(part_bytes)
    refuse_existing(out)
    opened = open_bundle(bundle)
    files = _files(opened)
    total = sum(file.bytes for file in files)
    _check_counts(len(files), -(-total // part_bytes), bundle)
    check_output(out, force=False, needed_bytes=total)
    try:
        with new_folder(out) as folder, typed_os_errors(out):
            parts = PartsList(
                name=opened.manifest.name[:1000],
                digest=opened.manifest.digest,
                bytes=total,
                files=files,
                parts=_cut(folder, _pieces(bundle, files, told), part_bytes),
            )
            check_parts_list(parts, out / PARTS_LIST)
            (folder / PARTS_LIST).write_bytes(parts_text(parts))
    except NameTaken as taken:
        raise _exists(out) from taken
    return parts


def refuse_existing(out: Path) -> None:
    """Refuse an output that exists, which neither a split nor a join replaces.

    Raises:
        InputError: E120.
    """
    if os.path.lexists(out):
        raise _exists(out)


def _exists(out: Path) -> InputError:
    fix = "remove it, or name another --out"
    return InputError("The output exists already.", where=str(out), fix=fix, code="E120")


def _check_part_bytes(part_bytes: int) -> None:
    if not 1 <= part_bytes <= MAX_PART_BYTES:
        why = f"a part has 1 to {MAX_PART_BYTES:,} bytes, not {part_bytes:,}"
        fix = f"give a number from 1 to {MAX_PART_BYTES // 1_000_000}"
        raise InputError("There are no parts of that size.", "--part-mb", why, fix, "E688")


def _check_counts(files: int, parts: int, bundle: Path) -> None:
    if max(files, parts) > MAX_COUNT:
        why = f"{files:,} files in {parts:,} parts, and a list holds up to {MAX_COUNT:,} of each"
        raise InputError("There would be too many parts or files.", str(bundle), why, "use larger parts", "E688")


def _files(bundle: Bundle) -> list[FileInfo]:
    """The bundle's files in their order: the manifest and the signature, so that they arrive first, what it lists."""
    manifest = FileInfo(
        path=MANIFEST, bytes=(bundle.path / MANIFEST).stat().st_size, sha256=manifest_sha256(bundle.manifest)
    )
    signature = bundle.path / SIGNATURE
    signed = os.path.lexists(signature)
    second = [FileInfo(path=SIGNATURE, bytes=signature.stat().st_size, sha256=file_sha256(signature))] if signed else []
    return [manifest, *second, *bundle.manifest.files]


def _pieces(bundle: Path, files: list[FileInfo], told: Told) -> Iterator[bytes]:
    """The files' bytes in pieces; what changed since it was listed is refused."""
    done, total = 0, sum(file.bytes for file in files)
    for file in files:
        digest = hashlib.sha256()
        with unreadable_as_error(bundle), open(bundle / file.path, "rb") as source:
            while piece := source.read(_PIECE):
                digest.update(piece)
                yield piece
                done += len(piece)
                told(done, total)
        if digest.hexdigest() != file.sha256:
            why = f"{file.path!r} was changed while the bundle was being split"
            raise InputError("The bundle changed.", str(bundle), why, "split it again", "E687")


def _cut(folder: Path, pieces: Iterator[bytes], part_bytes: int) -> list[PartInfo]:
    """Write parts of ``part_bytes`` bytes; only the last may be smaller."""
    parts: list[PartInfo] = []
    rest = memoryview(b"")
    while rest or (rest := memoryview(next(pieces, b""))):
        name = f"part-{len(parts):05d}"
        with open(folder / name, "xb") as target:
            size, sha256, rest = _fill(target, rest, pieces, part_bytes)
        parts.append(PartInfo(name=name, bytes=size, sha256=sha256))
    return parts


def _fill(target: IO[bytes], rest: memoryview, pieces: Iterator[bytes], part_bytes: int) -> tuple[int, str, memoryview]:
    """Write one part; returns its bytes, its sha256 and what belongs to the next one."""
    digest, size = hashlib.sha256(), 0
    while rest or (size < part_bytes and (rest := memoryview(next(pieces, b"")))):
        piece, rest = rest[: part_bytes - size], rest[part_bytes - size :]
        target.write(piece)
        digest.update(piece)
        size += len(piece)
        if size == part_bytes:
            break
    return size, digest.hexdigest(), rest
