"""The files that are copied to a device, all into one folder: those of the runner and those of the bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.devices.transport import Say

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle


@dataclass(frozen=True)
class RunnerPackage:
    """A runner that runs wherever its files are copied.

    Attributes:
        files: paths on this machine, by name in the device's folder.
        command: the command that starts it with that folder as the working directory.
    """

    files: Mapping[str, Path]
    command: tuple[str, ...]


def arm64_runner(say: Say) -> RunnerPackage:
    """The arm64 runner, built on first use.

    Raises:
        ToolError: E301, E311, E312, E571: it cannot be built.
    """
    from edgec.devices.runner.abi import ARM64
    from edgec.devices.runner.build import build_runner, start_line

    build = build_runner(announce=say, abi=ARM64)
    files = {path.name: path for path in build.files}
    return RunnerPackage(files, start_line(".", ARM64))


def bundle_files(bundle: Bundle) -> dict[str, Path]:
    """The files of a bundle that the runner reads, by name: its manifest and its artifact."""
    names = ("manifest.json", bundle.manifest.artifact)
    return {name: bundle.path / name for name in names}
