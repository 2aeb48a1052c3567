"""Check what ``--force`` may replace: a folder that edgec wrote, as long as it holds nothing else.

A folder is recognised by its own record, which also says which files belong to it. Their contents do not matter: what
was damaged stays replaceable. A file that the record does not name belongs to the user, and is named and kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ValidationError

from edgec.bundle.checked_files import walk
from edgec.bundle.limited_json import limited_bytes, parse_json
from edgec.errors import InputError

OwnNames = Callable[[Path], frozenset[str] | None]


class _ListedFile(BaseModel):
    path: str
    bytes: int
    sha256: str


class _AnyManifest(BaseModel):
    """What every manifest of a bundle has had since the first schema; the rest may be damaged or of another version."""

    schema_version: int
    digest: str
    artifact: str
    target: str
    runtime: dict[str, object]
    files: list[_ListedFile]


def listed_names(manifest: Path, max_bytes: int) -> frozenset[str] | None:
    """The files that a bundle's manifest lists, whatever its version or damage; None where it is not edgec's."""
    try:
        fields = parse_json(limited_bytes(manifest, max_bytes, follow=False))
        return frozenset(file.path for file in _AnyManifest.model_validate(fields).files)
    except (OSError, ValueError, ValidationError):
        return None


def check_replaceable(path: Path, own_names: OwnNames, kind: str) -> None:
    """Refuse to replace what edgec did not write; an absent output is fine.

    Args:
        path: the output.
        own_names: from a folder to the names of its own files (forward slashes), None where it is not of this kind.
        kind: what may be replaced, for the message.

    Raises:
        InputError: E123.
    """
    if not os.path.lexists(path):
        return
    names = None if path.is_symlink() or not path.is_dir() else own_names(path)
    if names is None:
        raise _kept(f"The output exists and is not a {kind} of edgec's, so --force does not delete it.", path, "")
    folders = {parent.as_posix() for name in names for parent in PurePosixPath(name).parents}
    for name, entry in walk(path):
        if name not in (folders if entry.is_dir(follow_symlinks=False) else names):
            why = f"edgec did not write {name!r}, which is in it"
            raise _kept(f"The {kind} holds a file of yours, so --force does not delete it.", path, why)


def check_replaceable_files(files: Sequence[Path], ours: Callable[[Path], bool], kind: str) -> None:
    """Refuse to replace files, named by the user, that edgec did not write.

    The first is recognised by its content, the others go with it.

    Args:
        files: a result and what is written beside it; an empty file holds nothing to lose.
        ours: whether a plain file was written by edgec.
        kind: what may be replaced, for the message.

    Raises:
        InputError: E123.
    """
    present = [file for file in files if os.path.lexists(file)]
    for file in present[:1]:
        plain = file.is_file() and not file.is_symlink()
        if not plain or (file.stat().st_size and (file != files[0] or not ours(file))):
            raise _kept(f"The output exists and is not a {kind} of edgec's.", file, "")


def _kept(what: str, path: Path, why: str) -> InputError:
    fix = "move it away or remove it yourself, or name another --out"
    return InputError(what, str(path), why or "nothing in it says that edgec wrote it", fix, "E123")
