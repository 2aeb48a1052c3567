"""A state of a repository on the hub: its commit, and the names of its files. Nothing of it is trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from edgec.bundle.hub.address import HubAddress, is_commit
from edgec.bundle.hub.failures import hub_failure, in_short, page_of
from edgec.errors import InputError

_ANSWER_S: Final = 30.0
# What the hub's library raises where an answer has another form than it expects.
UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True)
class RepositoryState:
    """What the hub says of a repository at a revision.

    Attributes:
        commit: the revision's, in full.
        names: of all files. They may be anything and are never used as paths.
        private: others do not see it.
    """

    commit: str
    names: frozenset[str]
    private: bool


def state_of(address: HubAddress) -> RepositoryState:
    """Ask the hub for the commit and the files of a revision.

    Raises:
        InputError: E101 no such repository or revision, or not without a login; E102 it is gated; E103 the hub cannot
            be reached; E875 it limits requests, or its answer cannot be read.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        info = HfApi().model_info(address.repository, revision=address.revision, timeout=_ANSWER_S)
        return _state(info)
    except Exception as error:  # Sorted by type; anything unknown is re-raised.
        if isinstance(error, UNREADABLE) and not isinstance(error, HfHubHTTPError):
            raise unreadable_answer(address, error) from error
        raise hub_failure("bundle", address.repository, address.revision, error) from error


def _state(info: Any) -> RepositoryState:
    if not is_commit(info.sha):
        raise ValueError(f"it names no commit: {str(info.sha)[:50]!r}")
    names = frozenset(str(file.rfilename) for file in info.siblings or ())
    return RepositoryState(info.sha, names, info.private is True)


def unreadable_answer(address: HubAddress, error: Exception) -> InputError:
    """The error for an answer that the hub does not give, E875."""
    return InputError(
        what="The hub's answer cannot be read.",
        where=page_of(address.repository),
        why=f"{type(error).__name__}: {in_short(error)}",
        fix="Call again later. Where HF_ENDPOINT is set or a proxy lies between, check that the hub answers there.",
        code="E875",
    )
