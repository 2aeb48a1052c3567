"""Find files in a model's folder. A pipe or a device under a file's name is refused: reading it may never end."""

from __future__ import annotations

from pathlib import Path

from edgec.errors import InputError


def is_plain(path: Path) -> bool:
    """Whether a regular file is there; a folder and a link to nothing count as absent.

    Raises:
        InputError: E125, it is neither a file nor a folder.
    """
    if path.is_file():
        return True
    if path.exists() and not path.is_dir():
        raise InputError(
            what=f"{path.name} is not a regular file.",
            where=str(path),
            why="it is a pipe, a socket or a device, which may never end",
            fix="Put the file itself there, or remove it.",
            code="E125",
        )
    return False


def plain_files(folder: Path, *patterns: str) -> tuple[Path, ...]:
    """The regular files of a folder whose names match any of the patterns, in name order.

    Raises:
        InputError: E125, a name belongs to something that is neither a file nor a folder.
    """
    found = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    return tuple(path for path in found if is_plain(path))


def head_text(file: Path, characters: int) -> str:
    """The beginning of a text file; what is not UTF-8 is replaced."""
    with file.open(encoding="utf-8", errors="replace") as stream:
        return stream.read(characters)
