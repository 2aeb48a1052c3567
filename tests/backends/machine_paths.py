"""What in an artifact says where it was made."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from edgec.installation import PACKAGE

_FOLDERS = (PACKAGE, PACKAGE.resolve().parents[1], Path(sys.prefix), Path(torch.__file__).parent, Path.home())
# Stack traces are also recognised where only a file's end is kept, and torch notes them under this name.
_MARKS = (*(f"{folder}/" for folder in _FOLDERS if len(folder.parts) > 1), "site-packages", ".stack_trace")


def machine_paths(artifact: Path) -> dict[str, list[str]]:
    """Every file of an artifact that holds a folder of this machine, with the folders and other marks that it holds."""
    files = {path.relative_to(artifact): path.read_bytes() for path in artifact.rglob("*") if path.is_file()}
    assert files, f"{artifact} holds nothing"
    held = {str(name): [mark for mark in _MARKS if mark.encode() in content] for name, content in files.items()}
    return {name: marks for name, marks in held.items() if marks}
