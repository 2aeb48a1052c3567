"""Pushing a bundle to the Hugging Face hub: first a plan, which reads and changes nothing; then one commit.

One commit, because a reader of the repository then finds the old bundle or the new one. The hub's library also sends
folders in several commits (upload_folder), between which a manifest could stand beside another one's artifact. Nothing
is lost by one: large files are sent before it, and what the hub has of them already is not sent again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edgec.bundle.folder import MANIFEST, SIGNATURE, Bundle, open_bundle
from edgec.bundle.hub.address import MAIN, HubAddress, is_commit
from edgec.bundle.hub.located import bundle_folder
from edgec.bundle.hub.repository import state_of
from edgec.errors import InputError
from edgec.exporter.publish.card import model_card_of
from edgec.exporter.publish.push_failures import not_allowed, push_failure
from edgec.exporter.publish.there import CARD, Occupied, occupied

_RESERVED: Final = (CARD, ".gitattributes", ".gitignore")


@dataclass(frozen=True)
class PushedFile:
    """A file that goes to the repository: its path there, and its bytes."""

    path: str
    bytes: int


@dataclass(frozen=True)
class PushPlan:
    """What a push will do.

    Attributes:
        bundle: whose files were all checked.
        address: the repository, and the branch.
        private: the repository is made private, where it is made.
        message: of the commit.
        files: of the bundle, as they lie in it.
        card: the model card; None: the one that is there stays.
        there: what is at the address now; None: the repository is new.
    """

    bundle: Bundle
    address: HubAddress
    private: bool
    message: str
    files: tuple[PushedFile, ...]
    card: str | None
    there: Occupied | None

    @property
    def stale(self) -> tuple[str, ...]:
        """Files of the bundle that is there which the new one does not have; they go in the same commit."""
        return () if self.there is None else self.there.stale({file.path for file in self.files})


def plan_push(
    bundle: Path | str,
    address: HubAddress,
    *,
    private: bool = False,
    message: str | None = None,
    base_model: str | None = None,
    force: bool = False,
) -> PushPlan:
    """Check a bundle and look at the repository; nothing is changed there.

    Args:
        bundle: its folder, or its address on the hub.
        address: the repository, and the branch.
        private: make a new repository private.
        message: of the commit; None: the bundle's name, recipe and target.
        base_model: the hub's id of the source model; None: the manifest's, where it came from the hub.
        force: replace what the repository holds, and its model card, whatever they are.

    Raises:
        InputError: E130 to E137 the bundle is not intact; E873 the address or ``base_model``; E874 the repository holds
            something else; E877 it is public and ``private`` is asked for; E102, E103, E875 the hub.
    """
    if is_commit(address.revision):
        why, fix = f"{address.revision} is a commit, which never changes", "name a branch, or leave the revision out"
        raise InputError("A push goes to a branch.", str(address), why, fix, "E873")
    opened = open_bundle(bundle_folder(bundle))
    files = _files(opened)
    there = occupied(address)
    if there is not None:
        _check_visibility(address, there, private)
        if not force:
            there.check_same(opened.manifest)
    card = model_card_of(opened.manifest, address, base_model)
    kept = there is not None and there.own_card and not force
    told = message or f"{opened.manifest.name}: {opened.manifest.recipe_name}, {opened.manifest.target}"
    return PushPlan(opened, address, private, told, files, None if kept else card, there)


def _files(bundle: Bundle) -> tuple[PushedFile, ...]:
    """The manifest, the signature where there is one, and what the manifest lists."""
    for file in bundle.manifest.files:
        if file.path in _RESERVED:
            why, fix = f"{file.path!r} means something of its own on the hub", "export the model again"
            raise InputError("A file of the bundle cannot be pushed.", str(bundle.path), why, fix, "E877")
    first = [name for name in (MANIFEST, SIGNATURE) if (bundle.path / name).is_file()]
    sizes = [PushedFile(name, (bundle.path / name).stat().st_size) for name in first]
    return (*sizes, *(PushedFile(file.path, file.bytes) for file in bundle.manifest.files))


def _check_visibility(address: HubAddress, there: Occupied, private: bool) -> None:
    if private and not there.private:
        why = "it exists, and everybody sees it; --private is for a repository that the push makes"
        fix = "make it private in its settings on the hub, name another one, or leave --private out"
        raise InputError("The repository is public.", str(address), why, fix, "E877")


def push(plan: PushPlan) -> str:
    """Do what a plan says, and return the commit.

    Raises:
        InputError: E877 the hub does not let this login write there; E875 the push ended early: what was sent stays and
            is not sent again, and the repository is as it was.
    """
    from huggingface_hub import HfApi

    api = HfApi(token=True)
    try:
        with _bars_at_terminals():
            _make_place(api, plan)
            commit = str(_commit(api, plan).oid)
    except Exception as error:  # Sorted by type there; anything unknown is re-raised.
        raise push_failure(plan.address, error) from error
    _check_arrived(plan, commit)
    return commit


@contextmanager
def _bars_at_terminals() -> Iterator[None]:
    """Let the hub's library draw its bars where there is a terminal to draw them on."""
    from huggingface_hub import utils

    bars: Any = utils  # It re-exports these without telling type checkers.
    if sys.stderr.isatty() or bars.are_progress_bars_disabled():
        yield
        return
    bars.disable_progress_bars()
    try:
        yield
    finally:
        bars.enable_progress_bars()


def _make_place(api: Any, plan: PushPlan) -> None:
    """Make the repository and the branch where they are missing."""
    repository, branch = plan.address.repository, plan.address.revision
    if plan.there is None:
        # None leaves it to the organisation, which may have a default.
        api.create_repo(repository, private=plan.private or None)
    if branch != MAIN and (plan.there is None or plan.there.branch_is_new):
        api.create_branch(repository, branch=branch)


def _commit(api: Any, plan: PushPlan) -> Any:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    folder = plan.bundle.path
    changes: list[Any] = [CommitOperationAdd(file.path, folder / file.path) for file in plan.files]
    changes += [CommitOperationAdd(CARD, plan.card.encode())] if plan.card is not None else []
    changes += [CommitOperationDelete(name) for name in plan.stale]
    parent = plan.there.commit if plan.there else None
    return api.create_commit(
        plan.address.repository,
        changes,
        commit_message=plan.message,
        revision=plan.address.revision,
        parent_commit=parent,
    )


def _check_arrived(plan: PushPlan, commit: str) -> None:
    """Look whether all files are in the commit: a .gitignore of the repository leaves files out without a word."""
    names = state_of(HubAddress(plan.address.repository, commit)).names
    if absent := [file.path for file in plan.files if file.path not in names]:
        why = f"{absent[0]!r} is not in the commit {commit}: a .gitignore there leaves it out"
        raise not_allowed(plan.address, why, "remove .gitignore from the repository, and push again")
