"""The packages that exist for some systems alone, what needs them, and where that is done instead."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from edgec.errors import ToolError

System = tuple[str, str]
"""As `sys.platform` and `platform.machine()`."""
LINUX_X86, LINUX_ARM, MAC = ("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")


@dataclass(frozen=True)
class PlatformPart:
    """A package that some systems have.

    Attributes:
        package: its name on the package index.
        purpose: what edgec does with it.
        systems: those that it has wheels for.
        instead: what to do on another one.
    """

    package: str
    purpose: str
    systems: tuple[System, ...]
    instead: str

    def lacks(self, here: System) -> str:
        """Why a system does not have it; empty where it can be installed."""
        if here in self.systems:
            return ""
        return f"{self.package} has no wheel for {_NAMES.get(here, ' on '.join(here))}"


_NAMES: Final[Mapping[System, str]] = MappingProxyType(
    {LINUX_X86: "Linux on x86-64", LINUX_ARM: "Linux on arm64", MAC: "macOS on arm64"}
)
PARTS: Final = (
    PlatformPart(
        *("coremltools", "exports for iPhones through Core ML, and its artifacts", (LINUX_X86, MAC)),
        "use a Mac, or Linux on x86-64, also as a container: docker run --platform linux/amd64",
    ),
    PlatformPart(
        *("coreai-core", "exports for Core AI, and its artifacts", (LINUX_X86, MAC)),
        "use Linux on x86-64, or a Mac with macOS 26 or later",
    ),
    PlatformPart(
        *("onnxruntime-qnn", "exports for Hexagon through onnxruntime, and its emulation", (LINUX_X86, LINUX_ARM)),
        "use Linux, also as a container",
    ),
)


def here() -> System:
    """This system."""
    return sys.platform, platform.machine()


def lacking_parts(system: System) -> list[PlatformPart]:
    """The packages that a system cannot have."""
    return [part for part in PARTS if part.lacks(system)]


def require_parts(packages: tuple[str, ...], where: str) -> None:
    """Refuse what needs a package that this system cannot have, before anything is computed.

    Raises:
        ToolError: E889.
    """
    for part in lacking_parts(here()):
        if part.package in packages:
            raise ToolError(
                "This system cannot have a package that this needs.", where, part.lacks(here()), part.instead, "E889"
            )
