"""The app projects of the repository: which of their files packages hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from edgec.apps.embed.facts_json import FACTS
from edgec.apps.embed.project import ANDROID
from edgec.apps.embed.written_package import AppPackage


def facts_of(package: AppPackage) -> Any:
    """What a package's sources read at run time."""
    (content,) = (content for path, content in package.files.items() if path.endswith(f"/{FACTS}"))
    assert isinstance(content, bytes)
    return json.loads(content)


def renamed_in(package: AppPackage) -> dict[str, str]:
    """The C functions of a Swift package's engine -> their names in it, from its manifest."""
    manifest = package.files["Package.swift"]
    assert isinstance(manifest, bytes)
    found = re.search(r"^let renamed = \[([^\]]*)\]", manifest.decode(), re.MULTILINE)
    names = re.findall(r'"(\w+)"', found[1]) if found is not None else []
    return {name: f"{package.module}_{name.removeprefix('edgec_')}" for name in names}


def names_in(root: Path, *endings: str) -> set[str]:
    """The names of a project's files with these endings."""
    return {path.name for path in root.rglob("*") if path.is_file() and path.name.endswith(endings)}


def names_of(packages: Iterable[AppPackage]) -> set[str]:
    """The names of the files that packages hold."""
    return {Path(path).name for package in packages for path in package.files}


def in_android(name: str, folder: str = "") -> str:
    """The source of a Kotlin file as it lies in the repository, in a folder of its source set."""
    found = (path for path in ANDROID.rglob("*") if path.name in (f"{name}.kt",))
    (path,) = (path for path in found if folder in path.relative_to(ANDROID).parts or not folder)
    return path.read_text()
