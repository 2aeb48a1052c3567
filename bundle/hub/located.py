"""The folder of a bundle, named by its path or by its address on the hub: the one place that tells them apart."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

from edgec.bundle.atomic import free_bytes, remove_folder
from edgec.bundle.folder import MANIFEST, SIGNATURE, open_bundle, read_manifest
from edgec.bundle.hub.address import HubAddress, hub_address
from edgec.bundle.hub.copies import HubCopy, known_commit, note_commit
from edgec.bundle.hub.download import fetch_listed, fetch_unlisted, not_as_listed
from edgec.bundle.hub.repository import RepositoryState, state_of
from edgec.bundle.manifest import Manifest
from edgec.errors import InputError
from edgec.terminal import counted_bar

MAX_FILES: Final = 10_000
MAX_BYTES: Final = 50_000_000_000
"""More than this a bundle from the hub does not have."""
_MAX_MANIFEST_BYTES: Final = 64 << 20
_MAX_SIGNATURE_BYTES: Final = 16 << 20
_UNREACHED: Final = ("E103", "E875")
_NAMED: Final = 4


def bundle_folder(bundle: Path | str) -> Path:
    """The folder of a bundle: a path as it is, or for an address on the hub a copy in the cache, fetched where needed.

    Which commit a branch or tag stands for is asked each time; what is known of it is used where the hub is out of
    reach. A copy has exactly the files that its manifest lists, of which every byte was checked as it came.

    Args:
        bundle: a path, or ``hub:OWNER/NAME`` or ``hub:OWNER/NAME@REVISION``.

    Raises:
        InputError: E873 not an address; E101 no such repository or revision, or not without a login; E102 it is gated;
            E103 the hub is out of reach; E874 the repository holds no bundle; E131 to E137 its manifest is refused;
            E875 the download ended early; E876 the files are not what the manifest says; E121 or E122 the cache.
    """
    address = hub_address(bundle)
    return Path(bundle) if address is None else _copy_of(address)


def _copy_of(address: HubAddress) -> Path:
    copy = HubCopy(address, address.commit or _commit_of(address))
    with copy.held():
        there = copy.is_whole()
        if not there:
            _fetch(copy)
    how = "as downloaded before" if there else f"downloaded: {copy.bundle}"
    _say(f"{address} is commit {copy.commit}, {how}")
    return copy.bundle


def _commit_of(address: HubAddress) -> str:
    """The commit that a revision stands for; where the hub cannot be asked, that of the copy which is there."""
    try:
        commit = state_of(address).commit
    except InputError as error:
        known = known_commit(address)
        if error.code not in _UNREACHED or known is None or not HubCopy(address, known).is_whole():
            raise
        _say(f"the hub cannot be asked ({error.why})")
        return known
    note_commit(address, commit)
    return commit


def _say(text: str) -> None:
    print(f"edgec: {text}", file=sys.stderr, flush=True)


def _fetch(copy: HubCopy) -> None:
    """Fetch what the manifest lists, check it, and give it the bundle's name."""
    state = state_of(replace(copy.address, revision=copy.commit))
    _require_manifest(copy.address, state)
    folder = copy.begin()
    manifest = _manifest(copy, folder)
    if SIGNATURE in state.names:
        fetch_unlisted(copy.address, copy.commit, SIGNATURE, folder / SIGNATURE, _MAX_SIGNATURE_BYTES)
    _check_listed(copy.address, manifest, state)
    missing = sum(file.bytes for file in manifest.files) - _kept(folder, manifest)
    _check_space(copy, missing)
    with counted_bar(f"{copy.address}, {len(manifest.files)} files, {missing / 1e6:,.1f} MB to fetch") as show:
        progress = _Progress(max(missing, 1), show)
        for file in manifest.files:
            fetch_listed(copy.address, copy.commit, file, folder / file.path, progress.arrived)
    try:
        open_bundle(folder, check_files=False)
    except InputError:
        remove_folder(folder)
        raise
    copy.finish()


class _Progress:
    """Adds up what arrives, for a bar."""

    def __init__(self, steps: int, show: Callable[[int, int], None]) -> None:
        self._steps, self._show, self._done = steps, show, 0
        self.arrived(0)

    def arrived(self, count: int) -> None:
        """Count bytes; negative ones are to come again."""
        self._done += count
        self._show(min(max(self._done, 0), self._steps), self._steps)


def _require_manifest(address: HubAddress, state: RepositoryState) -> None:
    if MANIFEST in state.names:
        return
    there = ", ".join(repr(name[:80]) for name in sorted(state.names)[:_NAMED])
    raise InputError(
        "The repository holds no edgec bundle.",
        where=str(address),
        why=f"there is no {MANIFEST} at its top: " + (f"it has {there}" if there else "it is empty"),
        fix=f"name another one; to make a bundle of a model there: edgec export {address.repository}",
        code="E874",
    )


def _manifest(copy: HubCopy, folder: Path) -> Manifest:
    """Fetch and check the manifest; one that is refused is not kept."""
    fetch_unlisted(copy.address, copy.commit, MANIFEST, folder / MANIFEST, _MAX_MANIFEST_BYTES)
    try:
        return read_manifest(folder)
    except InputError as error:
        (folder / MANIFEST).unlink(missing_ok=True)
        raise replace(error, where=f"{copy.address} ({MANIFEST})") from error


def _check_listed(address: HubAddress, manifest: Manifest, state: RepositoryState) -> None:
    """Refuse a list that is too long, contradicts itself, or names what the repository does not have.

    Raises:
        InputError: E876.
    """
    names, total = {file.path for file in manifest.files}, sum(file.bytes for file in manifest.files)
    folders = {parent.as_posix() for name in names for parent in PurePosixPath(name).parents}
    if len(manifest.files) > MAX_FILES or total > MAX_BYTES:
        why = f"{len(manifest.files):,} files of {total:,} bytes; a bundle has up to {MAX_FILES:,} of {MAX_BYTES:,}"
        raise not_as_listed(address, why)
    if twice := sorted((names | {MANIFEST, SIGNATURE}) & folders):
        raise not_as_listed(address, f"{twice[0]!r} is listed as a file and as a folder")
    if absent := sorted(names - state.names):
        raise not_as_listed(address, f"{absent[0]!r} is listed and not there")


def _kept(folder: Path, manifest: Manifest) -> int:
    """Bytes that an earlier call has fetched already."""
    return sum(min(_size(folder / file.path), file.bytes) for file in manifest.files)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _check_space(copy: HubCopy, missing: int) -> None:
    free = free_bytes(copy.entry)
    if free < missing:
        raise InputError(
            "The disk is too full for this bundle.",
            where=str(copy.entry),
            why=f"{missing:,} bytes are missing, {free:,} are free (measured)",
            fix="free some space (edgec cache clean), or set EDGEC_CACHE_DIR to a folder on another disk",
            code="E122",
        )
