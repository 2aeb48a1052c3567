"""``edgec.embed``: a bundle as a package that an app takes in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.errors import InputError
from edgec.exporter.bundle.folder import open_bundle
from edgec.exporter.embed.gradle_modules import gradle_modules
from edgec.exporter.embed.swift_package import swift_package
from edgec.exporter.embed.written_package import AppPackage, write_package

_PLATFORMS = {"ios": swift_package, "android": gradle_modules}


@dataclass(frozen=True)
class Embedded:
    """A package on the disk."""

    path: Path
    package: AppPackage

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {"package": str(self.path), **self.package.to_json()}


def embed(bundle: str | Path, platform: str, out: str | Path | None = None) -> Embedded:
    """Write the source package of a bundle.

    Args:
        bundle: the bundle's folder; every file of it is checked.
        platform: ``ios`` (a Swift package) or ``android`` (Gradle modules).
        out: the package's own path; by default NAME-PLATFORM in the current folder.

    Returns:
        Where it is and what it needs.

    Raises:
        InputError: E130-E137 no intact bundle, E460 another system's bundle, E461 the output exists, E462 no tokenizer,
            E463 unreadable files, E464 no glue fits, E465 no typed function, E466 no such platform, E469 a number
            without a literal.
    """
    if platform not in _PLATFORMS:
        fix = f"use one of {', '.join(_PLATFORMS)}"
        raise InputError(f"there is no platform {platform!r}", "--platform", fix=fix, code="E466")
    opened = open_bundle(Path(bundle))
    path = Path(out) if out is not None else Path(f"{opened.path.name.removesuffix('.edgec')}-{platform}")
    package = _PLATFORMS[platform](opened)
    write_package(package, path)
    return Embedded(path, package)
