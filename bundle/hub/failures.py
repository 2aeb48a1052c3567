"""What the hub's library raises, as errors that say what failed and what to do; the same for models and for bundles."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from edgec.errors import InputError

_TOO_MANY: Final = 429
NOT_LET_IN: Final = (401, 403)
"""The statuses of answers to a login that is wrong, has ended or may not do this."""
_MOST_WHY: Final = 200
# The query of an address may be what opens it.
_QUERY = re.compile(r"\?[^\s'\"]+")
# How a revision is given with each kind of thing.
_OPTIONS: Final = {"model": "--revision", "bundle": "@REVISION"}
# Where else a name of that kind was looked for.
_ELSEWHERE: Final = {"model": ", and no such local folder", "bundle": ""}
_Made = Callable[[str, str, str | None, Exception], InputError]


def hub_failure(kind: str, repository: str, revision: str | None, error: Exception) -> Exception:
    """The typed error for what the hub's library raised; what is not of its kinds comes back as it is.

    Args:
        kind: what was asked for: ``model`` or ``bundle``.
        repository: OWNER/NAME.
        revision: branch, tag or commit; None: the main branch.
        error: what was raised.

    Returns:
        E101 no such repository or revision, or the login is not accepted; E102 gated; E103 out of reach; E148 not to
        be stored; E875 too many requests.
    """
    from huggingface_hub import errors

    # The first match wins: a gated repository is also a repository that was not found.
    table: tuple[tuple[type[Exception], _Made], ...] = (
        (errors.GatedRepoError, _gated),
        (errors.RepositoryNotFoundError, _not_found),
        (errors.RevisionNotFoundError, _no_revision),
        (errors.HFValidationError, _not_found),
        (http_error(), _offline),
        (errors.LocalEntryNotFoundError, _offline),
        (ConnectionError, _offline),
        (errors.XetDownloadError, _offline),
        (OSError, _cache_unwritable),
    )
    status = status_of(error)
    if status == _TOO_MANY:
        return too_many_requests(repository, error)
    if status in NOT_LET_IN and not isinstance(error, errors.RepositoryNotFoundError):
        return _not_let_in(repository, error)
    return next((make(kind, repository, revision, error) for each, make in table if isinstance(error, each)), error)


def http_error() -> type[Exception]:
    """The base class of all errors of the HTTP client that the hub's library uses, whichever that is."""
    from huggingface_hub import errors

    return errors.HfHubHTTPError.__bases__[0]


def status_of(error: Exception) -> int | None:
    """The status of the answer that an error is about, where it is about one."""
    response: Any = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    return status if isinstance(status, int) else None


def in_short(error: Exception) -> str:
    """The first two lines of an error's text, of which the second is the reason, without the queries of addresses."""
    lines = [line for each in str(error).splitlines() if (line := each.strip())]
    return _QUERY.sub("", " ".join(lines[:2]) or type(error).__name__)[:_MOST_WHY]


def page_of(repository: str) -> str:
    """The address of a repository's page."""
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{repository}"


def too_many_requests(repository: str, error: Exception) -> InputError:
    """The error for a hub that limits how often it is asked, E875."""
    return InputError(
        what="The hub takes no more requests for now.",
        where=page_of(repository),
        why=in_short(error),
        fix="Wait some minutes and call again; with a login (`hf auth login`) the hub allows more.",
        code="E875",
    )


def _gated(kind: str, repository: str, _revision: str | None, error: Exception) -> InputError:
    return InputError(
        what=f"The {kind} {repository} is gated: its owner asks you to accept a licence first.",
        where=page_of(repository),
        why=in_short(error),
        fix="Accept the licence on that page, then log in with `hf auth login` (or set HF_TOKEN) and try again.",
        code="E102",
    )


def _not_let_in(repository: str, error: Exception) -> InputError:
    return InputError(
        what="The hub does not accept this login.",
        where=page_of(repository),
        why=in_short(error),
        fix="Log in again with `hf auth login`, or correct or unset HF_TOKEN.",
        code="E101",
    )


def _not_found(kind: str, repository: str, _revision: str | None, error: Exception) -> InputError:
    return InputError(
        what=f"There is no {kind} {repository!r} on the Hugging Face hub{_ELSEWHERE[kind]}.",
        where=repository,
        why=in_short(error),
        fix=f"Check the spelling; for a private {kind} log in with `hf auth login`.",
        code="E101",
    )


def _no_revision(kind: str, repository: str, revision: str | None, error: Exception) -> InputError:
    return InputError(
        what=f"The {kind} {repository} has no revision {revision!r}.",
        where=page_of(repository),
        why=in_short(error),
        fix=f"Name a branch, tag or commit of that repository, or leave {_OPTIONS[kind]} out.",
        code="E101",
    )


def _offline(kind: str, repository: str, revision: str | None, error: Exception) -> InputError:
    return InputError(
        what=f"The {kind} {repository} is not in the local cache, and the Hugging Face hub could not be reached.",
        where=page_of(repository) + (f" (revision {revision})" if revision else ""),
        why=in_short(error),
        fix="Unset HF_HUB_OFFLINE or go online once to fetch it, or pass the path of a local folder.",
        code="E103",
    )


def _cache_unwritable(kind: str, repository: str, _revision: str | None, error: Exception) -> InputError:
    return InputError(
        what=f"The {kind} {repository} could not be stored in the local cache.",
        where=str(getattr(error, "filename", None) or "HF_HOME"),
        why=in_short(error),
        fix="Free some disk space, or point HF_HOME to a writable folder on a larger disk.",
        code="E148",
    )
