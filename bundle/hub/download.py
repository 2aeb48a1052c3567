"""One file of a repository on the hub: what has arrived stays, the next attempt goes on there, and no byte is too many.

The hub's own library deletes what has arrived where a download fails, so a file of a gigabyte would begin anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import IO, Any, Final

from edgec.bundle.atomic import typed_os_errors
from edgec.bundle.checked_files import file_sha256
from edgec.bundle.hub.address import HubAddress
from edgec.bundle.hub.failures import (
    NOT_LET_IN,
    http_error,
    hub_failure,
    in_short,
    page_of,
    status_of,
    too_many_requests,
)
from edgec.bundle.manifest import FileInfo
from edgec.errors import InputError

Arrived = Callable[[int], None]
"""Takes how many bytes came; negative where some are to come again."""
_PARTIAL, _BEYOND_THE_END, _TOO_MANY = 206, 416, 429
_ANSWER_S: Final = 30.0
_RETRIES: Final = 5
_PAUSE_S: Final = 1.0
_RESUMES: Final = "Call again: what has arrived stays and is not fetched twice."
_DISTRUST: Final = "Do not use this bundle; tell whoever published it, or take another @REVISION."


class _TooLong(Exception):
    """More bytes came than the file may have."""


class _TooShort(Exception):
    """The hub says that the file ended, and bytes are missing."""


def fetch_listed(address: HubAddress, commit: str, file: FileInfo, path: Path, arrived: Arrived) -> None:
    """Fetch a file that a manifest lists; where a part of it lies at ``path``, the rest.

    Raises:
        InputError: E101 or E102; E122 the disk is full; E875 the download ended early, and goes on with the next call;
            E876 it is longer than listed, or its sha256 differs: nothing of it is kept.
    """
    kept = path.stat().st_size if path.exists() else 0
    _fetch(address, commit, file.path, path, file.bytes, file.bytes, arrived)
    if kept and file_sha256(path) != file.sha256:
        # What an earlier call left may have been damaged since, as by a loss of power.
        path.unlink()
        arrived(-file.bytes)
        _fetch(address, commit, file.path, path, file.bytes, file.bytes, arrived)
    if file_sha256(path) != file.sha256:
        path.unlink()
        raise not_as_listed(address, f"{file.path!r}: its sha256 is not the listed one")


def fetch_unlisted(address: HubAddress, commit: str, name: str, path: Path, most: int) -> None:
    """Fetch a file of unknown size, of at most so many bytes, from its beginning.

    Raises:
        InputError: as `fetch_listed`.
    """
    path.unlink(missing_ok=True)
    _fetch(address, commit, name, path, None, most, lambda _: None)


def not_as_listed(address: HubAddress, why: str) -> InputError:
    """The error for a repository whose files are not those of its manifest, E876."""
    return InputError("The bundle on the hub is not what its manifest says.", str(address), why, _DISTRUST, "E876")


def _fetch(
    address: HubAddress, commit: str, name: str, path: Path, size: int | None, most: int, arrived: Arrived
) -> None:
    from huggingface_hub import hf_hub_url

    url = hf_hub_url(address.repository, name, revision=commit)
    with typed_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "r+b" if path.exists() else "xb")  # noqa: SIM115, closed below
    with file:
        if file.seek(0, os.SEEK_END) > most:
            file.truncate(file.seek(0))
        try:
            _stream(url, file, size, most, arrived)
        except _TooLong as error:
            path.unlink()
            raise not_as_listed(address, f"{name!r} is longer than {most:,} bytes") from error
        except _TooShort as error:
            path.unlink()
            raise not_as_listed(address, f"{name!r} ends on the hub before {size:,} bytes") from error
        except (OSError, http_error()) as error:
            raise _failure(address, commit, name, error, path) from error


def _stream(url: str, file: IO[bytes], size: int | None, most: int, arrived: Arrived) -> None:
    """Append what is missing of a file, in as many attempts as bring new bytes, and some that bring none."""
    failures = 0
    while file.tell() != size:
        kept = file.tell()
        try:
            _append(url, file, most, arrived)
        except http_error() as error:
            failures = 0 if file.tell() > kept else failures + 1
            if status_of(error) == _BEYOND_THE_END:
                raise _TooShort from error
            if status_of(error) is not None or failures > _RETRIES:
                raise
            sleep(_PAUSE_S)
            continue
        if size is not None and file.tell() != size:
            raise _TooShort
        return


def _append(url: str, file: IO[bytes], most: int, arrived: Arrived) -> None:
    """Ask once for all from the file's end on; the library itself repeats a request that a busy hub refused."""
    from huggingface_hub import utils

    http: Any = utils  # It re-exports these without telling type checkers.
    kept = file.tell()
    # A compressed answer could not go on at a byte of the file.
    headers = http.build_hf_headers() | {"accept-encoding": "identity"} | ({"range": f"bytes={kept}-"} if kept else {})
    with http.http_stream_backoff("GET", url, headers=headers, timeout=_ANSWER_S, retry_on_exceptions=()) as response:
        http.hf_raise_for_status(response)
        if kept and response.status_code != _PARTIAL:
            file.truncate(file.seek(0))
            arrived(-kept)
        for piece in response.iter_bytes():
            if file.tell() + len(piece) > most:
                raise _TooLong
            file.write(piece)
            arrived(len(piece))


def _failure(address: HubAddress, commit: str, name: str, error: Exception, path: Path) -> Exception:
    """Why a file did not come whole: the hub refuses, the disk is full, or the connection ended."""
    from huggingface_hub import errors

    refused = (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.OfflineModeIsEnabled)
    if isinstance(error, refused) or status_of(error) in NOT_LET_IN:
        return hub_failure("bundle", address.repository, commit, error)
    if isinstance(error, errors.EntryNotFoundError):
        return not_as_listed(address, f"{name!r} is listed and not there")
    if status_of(error) == _TOO_MANY:
        return too_many_requests(address.repository, error)
    if isinstance(error, OSError) and not isinstance(error, http_error()):
        with typed_os_errors(path):
            raise error
    return InputError(
        what="The download ended early.",
        where=f"{page_of(address.repository)} ({name})",
        why=in_short(error),
        fix=_RESUMES,
        code="E875",
    )
