"""The ``Phone`` protocol: what a bench app needs of a device, from installation to the files that it exchanges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from edgec.devices.apple.xcrun import file_text
from edgec.devices.transport import DeviceFacts
from edgec.errors import EdgecError

# devicectl has no separate error code for a file that does not exist.
NO_FILE = ("E541", "E557")


class Phone(Protocol):
    """An iPhone or a simulator that can run the bench app."""

    @property
    def simulated(self) -> bool:
        """Whether it is a simulator."""

    @property
    def sdk(self) -> str:
        """The SDK that the app is built for: ``iphoneos`` or ``iphonesimulator``."""

    def ready(self, minimum_os: str) -> None:
        """Refuse a device that is absent, untrusted, locked, not in developer mode, or too old.

        Raises:
            InputError: E541, E543, E554, E555, E556.
        """

    def facts(self) -> DeviceFacts:
        """The facts known from here; the app's records say more."""

    def install(self, app: Path) -> None:
        """Install a built app.

        Raises:
            EdgecError: E553 to E557.
        """

    def write(self, app_id: str, name: str, source: Path) -> None:
        """Copy a file into the app's Documents."""

    def launch(self, app_id: str) -> None:
        """Start the app; restart it if it runs.

        Raises:
            EdgecError: E553, E554, E557.
        """

    def read(self, app_id: str, name: str) -> str:
        """The text of a file in the app's Documents; empty when there is none yet.

        Raises:
            EdgecError: E541 or E543, the device is gone; E553 to E555.
        """

    def uninstall(self, app_id: str) -> None:
        """Remove the app and its files."""


def copy_text(name: str, copy: Callable[[Path], object], check_there: Callable[[], None]) -> str:
    """The text of a file of the app; empty when there is none yet.

    Args:
        name: of the file.
        copy: copies it to a path.
        check_there: raises where the device is gone, which the tools do not distinguish from a missing file.
    """
    with TemporaryDirectory() as folder:
        target = Path(folder) / name
        try:
            copy(target)
        except EdgecError as error:
            if error.code not in NO_FILE:
                raise
            check_there()
            return ""
        return file_text(target)
