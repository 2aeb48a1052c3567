"""The app projects of the repository: which of their files packages hold."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from edgec.apps.embed.project import ANDROID
from edgec.apps.embed.template_text import SUFFIX
from edgec.apps.embed.written_package import AppPackage


def names_in(root: Path, *endings: str) -> set[str]:
    """The names of a project's files with these endings."""
    names = (path.name.removesuffix(SUFFIX) for path in root.rglob("*") if path.is_file())
    return {name for name in names if name.endswith(endings)}


def names_of(packages: Iterable[AppPackage]) -> set[str]:
    """The names of the files that packages hold."""
    return {Path(path).name for package in packages for path in package.files}


def in_android(name: str, folder: str = "") -> str:
    """The source of a Kotlin file as it lies in the repository, in a folder of its source set."""
    found = (path for path in ANDROID.rglob("*") if path.name in (f"{name}.kt", f"{name}.kt{SUFFIX}"))
    (path,) = (path for path in found if folder in path.relative_to(ANDROID).parts or not folder)
    return path.read_text()
