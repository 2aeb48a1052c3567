"""Why a push failed: this login may not write there, or it ended early and goes on with the next call."""

from __future__ import annotations

from typing import Final

from edgec.bundle.hub.address import HubAddress
from edgec.bundle.hub.failures import http_error, in_short, page_of, status_of, too_many_requests
from edgec.bundle.hub.repository import UNREADABLE
from edgec.errors import InputError

_REFUSED: Final = (401, 403, 404, 409)
_TOO_MANY: Final = 429
_CHANGED: Final = 412
_AGAIN: Final = "Call again: files that the hub has already are not sent twice, and the repository is as it was."
_LOGIN: Final = "Log in with `hf auth login`, or set HF_TOKEN, with a token that may write to this owner's models."


def push_failure(address: HubAddress, error: Exception) -> Exception:
    """The typed error for what the hub's library raised; what is not of its kinds comes back as it is.

    Returns:
        E877 not allowed, E875 ended early.
    """
    from huggingface_hub import errors

    # While it sends files, the library raises an error of its own from the one that tells the reason.
    cause = error.__cause__ if isinstance(error, RuntimeError) and isinstance(error.__cause__, Exception) else error
    status = status_of(cause)
    if isinstance(cause, errors.LocalTokenNotFoundError):
        return not_allowed(address, "there is no login here")
    if status in _REFUSED:
        return not_allowed(address, in_short(cause))
    if status == _TOO_MANY:
        return too_many_requests(address.repository, cause)
    if status == _CHANGED:
        return _ended_early(address, "somebody else changed the repository meanwhile")
    if isinstance(cause, (http_error(), OSError, RuntimeError, errors.XetDownloadError, *UNREADABLE)):
        return _ended_early(address, in_short(cause))
    return error


def not_allowed(address: HubAddress, why: str, fix: str = _LOGIN) -> InputError:
    """The error for a repository that does not take the bundle, by default since this login may not write to it."""
    return InputError("The hub does not take the bundle.", page_of(address.repository), why, fix, "E877")


def _ended_early(address: HubAddress, why: str) -> InputError:
    return InputError("The push ended early.", page_of(address.repository), why, _AGAIN, "E875")
