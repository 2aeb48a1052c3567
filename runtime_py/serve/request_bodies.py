"""A request's body: read within limits of time and size, JSON or a form, and checked by its typed description."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from edgec.runtime_py.serve.bodies import BodyT, checked_body, read_body
from edgec.runtime_py.serve.form_parts import read_form
from edgec.runtime_py.serve.limits import ServeLimits
from edgec.runtime_py.serve.problems import malformed_body, too_large, too_many_uploads

_JSON: Final = "application/json"
_FORM: Final = "multipart/form-data"
_BODY_OPTION: Final = "--max-body-mb"
_UPLOAD_OPTION: Final = "--max-upload-mb"


class RequestBodies:
    """Reads the bodies of requests, few large ones at a time."""

    def __init__(self, limits: ServeLimits, media: bool) -> None:
        """Read within ``limits``; ``media``: requests may bring images or sounds, which are larger."""
        self._limits, self._large = limits, 0
        self._most = max(limits.body_bytes, limits.upload_bytes) if media else limits.body_bytes

    async def json(self, request: Request, kind: type[BodyT]) -> BodyT:
        """The request in a body of JSON.

        Raises:
            RequestError: E632, E633 as `read_body`; E635, it is too large; E638, too many large ones are in memory.
        """
        if _kind_of(request) != _JSON:
            raise malformed_body(f"the header Content-Type is not {_JSON}")
        return await run_in_threadpool(read_body, await self._read(request), kind)

    async def form(self, request: Request, kind: type[BodyT]) -> BodyT:
        """The request in a body of parts, one of which may be a file; raises as `json`."""
        if _kind_of(request) != _FORM:
            raise malformed_body(f"the header Content-Type is not {_FORM}")
        raw, described = await self._read(request), request.headers["content-type"]
        return await run_in_threadpool(lambda: checked_body(read_form(raw, described), kind))

    @contextmanager
    def place(self, request: Request) -> Iterator[None]:
        """Give the place of a large body back once its request is answered."""
        request.state.large = False
        try:
            yield
        finally:
            self._large -= request.state.large

    async def _read(self, request: Request) -> bytes:
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                return await self._limited(request)
        except TimeoutError as cause:
            raise malformed_body(f"it did not arrive within {self._limits.body_seconds:g} s") from cause

    async def _limited(self, request: Request) -> bytes:
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self._most:
                raise too_large(self._most, _BODY_OPTION if self._most == self._limits.body_bytes else _UPLOAD_OPTION)
            if size > self._limits.body_bytes and not request.state.large:
                self._take_place(request)
            parts.append(part)
        return b"".join(parts)

    def _take_place(self, request: Request) -> None:
        if self._large >= self._limits.uploads:
            raise too_many_uploads(self._limits.uploads)
        self._large += 1
        request.state.large = True


def _kind_of(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
