"""Put a bundle together from its parts: every part is checked while it is written, and a stopped join goes on later.

    .NAME.edgec~joining/
        list.json     what is being joined; another list begins anew
        taken         how many parts were written and flushed, so that a killed process loses one at most
        bundle/       becomes NAME.edgec when every file is what the list and the manifest say

Whoever can write beside the bundle could have laid it out, so it must be this user's and hold no links.
The apps' downloaders do the same with parts that come over a network (docs/download.md).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import IO

from edgec.bundle.atomic import sync_folder, sync_tree, typed_os_errors, write_file
from edgec.bundle.checked_files import first_difference
from edgec.bundle.folder import MANIFEST, SIGNATURE, check_output, read_manifest
from edgec.bundle.limited_json import limited_bytes
from edgec.bundle.manifest import FileInfo
from edgec.bundle.parts_list import MAX_COUNT, PartInfo, PartsList, parts_text, read_parts_list
from edgec.bundle.split import Told, refuse_existing
from edgec.errors import InputError

_PIECE = 1 << 20
_LIST, _TAKEN = "list.json", "taken"
_FETCH = "get this part again, then join again: what was joined before is kept"


def join_parts(folder: Path, out: Path, digest: str | None = None, told: Told = lambda done, of: None) -> PartsList:
    """Put a bundle together from a folder of parts; it appears whole or not at all.

    Args:
        folder: the parts, as `split_bundle` wrote them; they stay as they are.
        out: the bundle to make.
        digest: of the manifest that must come out, where it is known from another source.
        told: called with the progress.

    Returns:
        The list of the parts.

    Raises:
        InputError: E680 to E684 the list is refused, E685 a part is missing, E686 it is damaged, E687 what came out is
            not what the list, the manifest or ``digest`` says, E689 another process joins it, E120 to E122 ``out``.
    """
    parts = read_parts_list(folder)
    if digest is not None and digest != parts.digest:
        raise _differs(parts, f"its digest is {parts.digest}, not {digest}")
    refuse_existing(out)
    with _opened(out, parts) as work:
        check_output(out, force=False, needed_bytes=work.missing_bytes)
        while work.taken < len(parts.parts):
            with typed_os_errors(out):
                work.take(folder)
            told(work.starts[work.taken], parts.bytes)
        _check_joined(work)
        _publish(work.bundle, out)
        shutil.rmtree(work.folder, ignore_errors=True)
    return parts


@dataclass
class _Work:
    """A join on its way; ``starts``: the first byte of each part, then the end; ``taken``: parts that are written."""

    folder: Path
    parts: PartsList
    starts: tuple[int, ...]
    taken: int

    @property
    def bundle(self) -> Path:
        """The folder that becomes the bundle."""
        return self.folder / "bundle"

    @property
    def missing_bytes(self) -> int:
        """Bytes that are still to be written."""
        return self.parts.bytes - self.starts[self.taken]

    def take(self, folder: Path) -> None:
        """Write the next part in its place; it counts only once its sha256 is right and its bytes are on the disk."""
        part = self.parts.parts[self.taken]
        digest = hashlib.sha256()
        with _part(folder, part) as source:
            for file, at, count in _segments(self.parts.files, self.starts[self.taken], part.bytes):
                _copy(source, self.bundle / file.path, at, count, digest)
        if digest.hexdigest() != part.sha256:
            raise _damaged(folder, part, "its sha256 is not the listed one")
        self.taken += 1
        write_file(self.folder / _TAKEN, str(self.taken).encode())


def _segments(files: list[FileInfo], start: int, count: int) -> Iterator[tuple[FileInfo, int, int]]:
    """Where a part's bytes belong, in order: a file, the place in it and how many."""
    at = 0
    for file in files:
        first, last = max(start, at), min(start + count, at + file.bytes)
        if first < last:
            yield file, first - at, last - first
        at += file.bytes


def _copy(source: IO[bytes], path: Path, at: int, count: int, digest: hashlib._Hash) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "r+b" if path.exists() else "xb") as target:
        target.seek(at)
        while count and (piece := source.read(min(_PIECE, count))):
            digest.update(piece)
            target.write(piece)
            count -= len(piece)
        target.flush()
        os.fsync(target.fileno())


@contextmanager
def _part(folder: Path, part: PartInfo) -> Iterator[IO[bytes]]:
    """Open a part of the listed size.

    Raises:
        InputError: E685 or E686.
    """
    path = folder / part.name
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise _missing(path, "it is not a plain file")
        source = open(path, "rb")  # noqa: SIM115, closed below
    except OSError as error:
        raise _missing(path, error.strerror or str(error)) from error
    with source:
        if status.st_size != part.bytes:
            raise _damaged(folder, part, f"{status.st_size:,} bytes instead of {part.bytes:,}")
        yield source


@contextmanager
def _opened(out: Path, parts: PartsList) -> Iterator[_Work]:
    """The work folder beside ``out``, held by this process alone; it stays for the next call where the block fails."""
    folder = out.parent / f".{out.name}~joining"
    with typed_os_errors(out):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        _check_own(folder)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError("Another process is joining it.", str(out), fix="wait for it", code="E689") from error
        with typed_os_errors(out):
            for parent, folders, files in os.walk(folder):
                for name in (*folders, *files):
                    _check_own(Path(parent, name))
            yield _Work(folder, parts, (0, *accumulate(part.bytes for part in parts.parts)), _resumed(folder, parts))
    finally:
        os.close(lock)


def _check_own(path: Path) -> None:
    """Refuse what an earlier call of this user cannot have left: writing through it would change other files.

    Raises:
        InputError: E121.
    """
    status = path.lstat()
    plain = stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)
    if not plain or status.st_uid != os.geteuid():
        why = "it belongs to another user" if plain else "it is a link, or neither a file nor a folder"
        fix = "remove it, or name another --out"
        raise InputError("The folder of an unfinished join cannot be used.", str(path), why, fix, "E121")


def _resumed(folder: Path, parts: PartsList) -> int:
    """How many parts an earlier call has written; 0, and an empty folder, where it joined something else."""
    wanted = parts_text(parts)
    try:
        if limited_bytes(folder / _LIST, len(wanted)) == wanted and (folder / "bundle").is_dir():
            taken = limited_bytes(folder / _TAKEN, len(str(MAX_COUNT)))
            return min(int(taken), len(parts.parts)) if taken.isdigit() else 0
    except (OSError, ValueError):
        pass
    for name in os.listdir(folder):
        shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()
    (folder / "bundle").mkdir()
    write_file(folder / _TAKEN, b"0")
    write_file(folder / _LIST, wanted)
    return 0


def _check_joined(work: _Work) -> None:
    """Check every file, and that the list names what the manifest names; what is wrong is not kept."""
    try:
        with typed_os_errors(work.bundle):
            for file in work.parts.files:
                if not file.bytes:
                    (work.bundle / file.path).parent.mkdir(parents=True, exist_ok=True)
                    (work.bundle / file.path).touch()
            difference = first_difference(work.bundle, work.parts.files)
        if difference is not None:
            raise _differs(work.parts, f"{difference.path!r}: {difference.why}")
        _check_manifest(work)
    except InputError:
        (work.folder / _LIST).unlink(missing_ok=True)
        raise


def _check_manifest(work: _Work) -> None:
    manifest = read_manifest(work.bundle)
    if manifest.digest != work.parts.digest:
        raise _differs(work.parts, f"the manifest's digest is {manifest.digest}")
    listed = [file for file in work.parts.files if file.path not in (MANIFEST, SIGNATURE)]
    if sorted(listed, key=lambda file: file.path) != sorted(manifest.files, key=lambda file: file.path):
        raise _differs(work.parts, "the manifest lists other files than the list of parts")


def _publish(bundle: Path, out: Path) -> None:
    with typed_os_errors(out):
        sync_tree(bundle)
        os.rename(bundle, out)
        sync_folder(out.parent)


def _missing(path: Path, why: str) -> InputError:
    return InputError(f"The part {path.name!r} is missing.", str(path), why, _FETCH, "E685")


def _damaged(folder: Path, part: PartInfo, why: str) -> InputError:
    return InputError(f"The part {part.name!r} is damaged.", str(folder / part.name), why, _FETCH, "E686")


def _differs(parts: PartsList, why: str) -> InputError:
    fix = "get the parts again from whoever split the bundle; do not use these"
    return InputError("The parts do not make up the bundle that they should.", parts.name, why, fix, "E687")
