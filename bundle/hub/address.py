"""Addresses of bundles on the Hugging Face hub: ``hub:OWNER/NAME`` or ``hub:OWNER/NAME@REVISION``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgec.errors import InputError

SCHEME: Final = "hub:"
MAIN: Final = "main"
_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_REPOSITORY = re.compile(rf"{_PART}/{_PART}")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,99}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
# What the hub itself refuses, and what would leave a folder.
_DOUBLED = ("..", "--", "//")


@dataclass(frozen=True)
class HubAddress:
    """A repository of models on the hub, and which state of it: a branch, a tag or a commit."""

    repository: str
    revision: str = MAIN

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}" + (f"@{self.revision}" if self.revision != MAIN else "")

    @property
    def name(self) -> str:
        """The repository's name without its owner's."""
        return self.repository.partition("/")[2]

    @property
    def commit(self) -> str | None:
        """The revision where it is a commit in full, which never changes."""
        return self.revision if is_commit(self.revision) else None


def is_commit(text: object) -> bool:
    """Whether a text is a commit's name in full."""
    return isinstance(text, str) and _COMMIT.fullmatch(text) is not None


def hub_address(bundle: Path | str) -> HubAddress | None:
    """The address that stands in the place of a bundle's folder, or None for a path.

    Raises:
        InputError: E873, it begins as an address does, and is none.
    """
    text = str(bundle)
    return parse_address_text(text.removeprefix(SCHEME), text) if text.startswith(SCHEME) else None


def parse_address_text(text: str, given: str) -> HubAddress:
    """Parse ``OWNER/NAME`` or ``OWNER/NAME@REVISION``; ``given`` is what the user wrote, for the message.

    Raises:
        InputError: E873.
    """
    repository, at, revision = text.partition("@")
    for part, form, what in ((repository, _REPOSITORY, "OWNER/NAME"), (revision or MAIN, _REVISION, "a revision")):
        if form.fullmatch(part) is None or any(pair in part for pair in _DOUBLED):
            raise _malformed(given, f"{part[:100]!r} is not {what}")
    if at and not revision:
        raise _malformed(given, "no revision follows the @")
    return HubAddress(repository, revision or MAIN)


def _malformed(given: str, why: str) -> InputError:
    return InputError(
        "This is not an address on the hub.",
        where=given[:200],
        why=why,
        fix="write hub:OWNER/NAME or hub:OWNER/NAME@REVISION; give a folder of such a name by its absolute path",
        code="E873",
    )
