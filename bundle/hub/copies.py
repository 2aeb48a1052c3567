"""Copies of bundles from the hub, in the cache: whole and checked, or on their way.

    hub/OWNER--NAME@COMMIT/
        NAME.edgec      the bundle, once every file is what its manifest lists
        arriving        the same on its way; the next call goes on there
    hub/.revisions/     the commit that a revision stood for when the hub was last asked, for use without a network

A commit never changes, so a copy of one is used without asking anybody.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgec.bundle.atomic import remove_folder, sync_folder, sync_tree, typed_os_errors, write_file
from edgec.bundle.folder import open_bundle
from edgec.bundle.hub.address import HubAddress, is_commit
from edgec.bundle.limited_json import limited_bytes
from edgec.errors import InputError
from edgec.installation import cache_root

KIND: Final = "hub"
"""The folder of the cache that these copies lie in."""
_COMMIT_BYTES: Final = 40
_OTHER_VERSION: Final = "E133"


@dataclass(frozen=True)
class HubCopy:
    """Where the copy of a bundle at a commit lies, whether or not it is there yet."""

    address: HubAddress
    commit: str

    @property
    def entry(self) -> Path:
        """The folder of everything that belongs to this commit."""
        return _root() / f"{self.address.repository.replace('/', '--')}@{self.commit}"

    @property
    def bundle(self) -> Path:
        """The bundle's folder."""
        return self.entry / f"{self.address.name.removesuffix('.edgec')}.edgec"

    @property
    def arriving(self) -> Path:
        """Where the files lie until all have come."""
        return self.entry / "arriving"

    def is_whole(self) -> bool:
        """Whether the bundle is there, with all its files in their sizes; a damaged one is removed.

        Raises:
            InputError: E133, it is whole, for another version of edgec.
        """
        if not os.path.lexists(self.bundle):
            return False
        try:
            open_bundle(self.bundle, check_files=False)
        except InputError as error:
            if error.code == _OTHER_VERSION:
                raise
            remove_folder(self.bundle)
            return False
        return True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from fetching the same, and from cleaning it, while the block runs.

        Raises:
            InputError: E121, the cache cannot be written.
        """
        lock = self.entry.with_name(f"{self.entry.name}.lock")
        with typed_os_errors(lock):
            lock.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
            os.utime(lock)
        try:
            _wait_for(descriptor, self.address)
            yield
        finally:
            os.close(descriptor)

    def begin(self) -> Path:
        """The folder of what arrives, with what an earlier call has left; where that is not files of one's own, empty.

        Raises:
            InputError: E121.
        """
        with typed_os_errors(self.arriving):
            if os.path.lexists(self.arriving) and not _is_own(self.arriving):
                remove_folder(self.arriving)
            self.arriving.mkdir(parents=True, exist_ok=True)
        return self.arriving

    def finish(self) -> None:
        """Give what has arrived the bundle's name, once it is on the disk.

        Raises:
            InputError: E121 or E122.
        """
        with typed_os_errors(self.bundle):
            sync_tree(self.arriving)
            os.rename(self.arriving, self.bundle)
            sync_folder(self.entry)


def _wait_for(descriptor: int, address: HubAddress) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"edgec: another process fetches {address}; waiting for it", file=sys.stderr, flush=True)
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _is_own(folder: Path) -> bool:
    """Whether a folder holds nothing but this user's folders and files, each under one name."""
    inside = [Path(parent, name) for parent, folders, files in os.walk(folder) for name in (*folders, *files)]
    return all(_is_plain(path.lstat()) for path in (folder, *inside))


def _is_plain(status: os.stat_result) -> bool:
    single = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    return (stat.S_ISDIR(status.st_mode) or single) and status.st_uid == os.geteuid()


def known_commit(address: HubAddress) -> str | None:
    """The commit that a revision stood for when the hub was last asked, or None."""
    with suppress(OSError, ValueError):
        text = limited_bytes(_noted(address), _COMMIT_BYTES).decode()
        return text if is_commit(text) else None
    return None


def note_commit(address: HubAddress, commit: str) -> None:
    """Keep which commit a revision stands for.

    Raises:
        InputError: E121 or E122.
    """
    if known_commit(address) != commit:
        with typed_os_errors(_noted(address)):
            _noted(address).parent.mkdir(parents=True, exist_ok=True)
        write_file(_noted(address), commit.encode())


def _noted(address: HubAddress) -> Path:
    """The file for a revision of a repository of this hub: HF_ENDPOINT may name another."""
    from huggingface_hub import constants

    asked = f"{constants.ENDPOINT} {address.repository}@{address.revision}"
    return _root() / ".revisions" / hashlib.sha256(asked.encode()).hexdigest()


def _root() -> Path:
    return cache_root() / KIND
