"""An app package, and writing it to disk whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.bundle.atomic import NameTaken, new_folder, typed_os_errors
from edgec.errors import InputError


@dataclass(frozen=True)
class AppPackage:
    """The source package that an app embeds.

    Attributes:
        platform: ``ios`` or ``android``.
        module: the name that the app imports.
        files: path inside the package -> its content, or a file to copy.
        format: of the artifact.
        minimum_os: the oldest system that can load it.
        needed_bytes: weights and states in memory, estimated.
        asset_pack: the bundle is delivered separately from the app.
        entitled: the app needs entitlements.
        executables: paths of files that can be executed.
        key_sha256: of the public key by which the app loads other bundles; None: it loads none.
    """

    platform: str
    module: str
    files: Mapping[str, bytes | Path]
    format: str
    minimum_os: str
    needed_bytes: int
    asset_pack: bool
    entitled: bool
    executables: frozenset[str] = frozenset()
    key_sha256: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The package's facts as plain data."""
        return {
            "platform": self.platform,
            "module": self.module,
            "format": self.format,
            "minimum_os": self.minimum_os,
            "needed_bytes_estimated": self.needed_bytes,
            "asset_pack": self.asset_pack,
            "entitlements": self.entitled,
            "public_key_sha256": self.key_sha256,
            "files": sorted(self.files),
            "compiled": False,
        }


def write_package(package: AppPackage, path: Path) -> None:
    """Write a package to a temporary folder, then rename it.

    Raises:
        InputError: E461 the path exists, E121 or E122 it cannot be written.
    """
    if os.path.lexists(path):
        raise _taken(path)
    try:
        with new_folder(path) as folder, typed_os_errors(path):
            for name, content in package.files.items():
                _write(folder / name, content)
                if name in package.executables:
                    (folder / name).chmod(0o755)
    except NameTaken as error:
        raise _taken(path) from error


def _write(target: Path, content: bytes | Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        target.write_bytes(content)
    else:
        shutil.copyfile(content, target)


def _taken(path: Path) -> InputError:
    return InputError(
        "the output exists already",
        where=str(path),
        fix="remove it, or name another folder with --out",
        code="E461",
    )
