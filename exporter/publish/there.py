"""What a repository holds before a push: whose bundle, whose model card, and what must not be overwritten."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from edgec.bundle.folder import MANIFEST, SIGNATURE, read_manifest
from edgec.bundle.hub.address import MAIN, HubAddress
from edgec.bundle.hub.download import fetch_unlisted
from edgec.bundle.hub.repository import RepositoryState, state_of
from edgec.bundle.limited_json import limited_bytes
from edgec.bundle.manifest import Manifest
from edgec.errors import InputError
from edgec.exporter.publish.card import MARK

CARD: Final = "README.md"
# Files of a repository in which nothing was published yet.
_UNOCCUPIED: Final = frozenset({CARD, ".gitattributes", ".gitignore", "LICENSE", "LICENSE.md", "LICENSE.txt"})
_MAX_MANIFEST_BYTES: Final = 64 << 20
_MAX_CARD_BYTES: Final = 4 << 20
_NAMED: Final = 3
_OTHERWISE: Final = "name another repository, push to a branch of its own with --revision, or replace it with --force"


@dataclass(frozen=True)
class Occupied:
    """A repository that exists.

    Attributes:
        address: the repository and the branch.
        commit: the newest one there; of a branch that is still to be made, that which it will begin at.
        names: of all files.
        private: others do not see it.
        branch_is_new: the branch is still to be made.
        manifest: of the bundle there; None: there is none that can be read.
        unreadable: why the manifest that is there cannot be read.
        own_card: there is a model card that edgec did not write.
    """

    address: HubAddress
    commit: str
    names: frozenset[str]
    private: bool
    branch_is_new: bool
    manifest: Manifest | None
    unreadable: str
    own_card: bool

    def stale(self, kept: Set[str]) -> tuple[str, ...]:
        """Files of the bundle there that are not among those of a new one."""
        listed = {file.path for file in self.manifest.files} if self.manifest else set()
        return tuple(sorted((listed | {SIGNATURE}) & self.names - kept))

    def check_same(self, manifest: Manifest) -> None:
        """Refuse to replace what is not an earlier state of the same bundle; a branch that is made replaces nothing.

        Raises:
            InputError: E874.
        """
        if not self.branch_is_new and (why := self._difference(manifest)):
            raise InputError(
                "The repository holds something else.", str(self.address), f"it has {why}", _OTHERWISE, "E874"
            )

    def _difference(self, manifest: Manifest) -> str:
        if self.unreadable:
            return f"a manifest that cannot be read: {self.unreadable}"
        if self.manifest is None:
            other = sorted(self.names - _UNOCCUPIED)
            return f"files that are not a bundle's: {', '.join(map(repr, other[:_NAMED]))}" if other else ""
        theirs, ours = self.manifest, manifest
        if (theirs.model.name, theirs.model.family) != (ours.model.name, ours.model.family):
            return f"the model {theirs.model.name!r} ({theirs.model.family}), and this is {ours.model.name!r}"
        return "" if theirs.target == ours.target else f"a bundle for {theirs.target}, and this is for {ours.target}"


def occupied(address: HubAddress) -> Occupied | None:
    """Look at a repository; None where there is none that this login sees.

    Raises:
        InputError: E102, E103 or E875, the hub.
    """
    state, is_new = _state(address), False
    if state is None and address.revision != MAIN:
        state, is_new = _state(replace(address, revision=MAIN)), True
    if state is None:
        return None
    with TemporaryDirectory() as folder:
        manifest, unreadable = _manifest(address, state, Path(folder))
        own_card = not is_new and CARD in state.names and not _is_written(address, state, Path(folder))
    return Occupied(address, state.commit, state.names, state.private, is_new, manifest, unreadable, own_card)


def _state(address: HubAddress) -> RepositoryState | None:
    try:
        return state_of(address)
    except InputError as error:
        if error.code == "E101":
            return None
        if error.code == "E103":
            fix = "Go online, or unset HF_HUB_OFFLINE, and call again."
            raise replace(error, what="The hub cannot be reached.", fix=fix) from error
        raise


def _manifest(address: HubAddress, state: RepositoryState, folder: Path) -> tuple[Manifest | None, str]:
    if MANIFEST not in state.names:
        return None, ""
    fetch_unlisted(address, state.commit, MANIFEST, folder / MANIFEST, _MAX_MANIFEST_BYTES)
    try:
        return read_manifest(folder), ""
    except InputError as error:
        return None, f"{error.what} {error.why}"


def _is_written(address: HubAddress, state: RepositoryState, folder: Path) -> bool:
    """Whether edgec wrote the model card, and nobody took its mark out since."""
    fetch_unlisted(address, state.commit, CARD, folder / CARD, _MAX_CARD_BYTES)
    return MARK.encode() in limited_bytes(folder / CARD, _MAX_CARD_BYTES)
