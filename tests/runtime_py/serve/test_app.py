"""The application called by hand, without a socket: which hosts it answers, and what a dropped request leaves."""

from __future__ import annotations

import asyncio
import json
import time
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from edgec.errors import InputError
from edgec.runtime_py.serve.app import Server
from edgec.runtime_py.serve.hosted_encoder import HostedEncoder
from edgec.runtime_py.serve.limits import DEFAULT_LIMITS
from edgec.runtime_py.serve.problems import as_body

TEXTS, WIDTH = 200, 4


class SlowEncoder:
    """A model that makes one vector in 10 ms, and says when it made the first."""

    embeds, tokenizer, vector_width = True, object(), WIDTH
    bundle = SimpleNamespace(manifest=SimpleNamespace(name="vectors"))

    def __init__(self) -> None:
        self.begun, self.made = Event(), 0

    def embedded_tokens(self, _: str, **__: object) -> int:
        return 1

    def embed(self, texts: list[str], **_: object) -> Any:
        time.sleep(0.01)
        self.made += 1
        self.begun.set()
        return np.zeros((len(texts), WIDTH), np.float32)


async def call(server: Server, method: str, path: str, host: str | None, body: Any = None) -> tuple[int, Any]:
    """The status and the answer of one request."""
    raw, sent, arrived = json.dumps(body).encode(), list[Any](), asyncio.Event()
    headers = [(b"content-type", b"application/json"), *([(b"host", host.encode())] if host is not None else [])]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    more = {"headers": headers, "server": ("127.0.0.1", 8080), "client": ("127.0.0.1", 1), "scheme": "http"}

    async def receive() -> Any:
        if arrived.is_set():
            await asyncio.sleep(60)
        arrived.set()
        return {"type": "http.request", "body": raw, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await server.app()(scope | more, receive, send)
    return sent[0]["status"], json.loads(b"".join(one.get("body", b"") for one in sent[1:]))


NAMES = ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example")
# Starlette cannot read these, and would take the server's own address in their place.
ODD = ("", "e{il.example", "[", "a b", "evil:99999")


@pytest.mark.parametrize("host", [*NAMES, *ODD, None])
def test_a_request_for_another_host_is_refused(host: str | None) -> None:
    status, held = asyncio.run(call(Server((), DEFAULT_LIMITS, None, local=True), "GET", "/health", host))
    assert (status, held["error"]["code"]) == (403, "E640")
    assert asyncio.run(call(Server((), DEFAULT_LIMITS, None, local=False), "GET", "/health", host))[0] == 200


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:8080", "[::1]", "127.0.0.2:8080"]
)
def test_this_machines_own_names_are_answered(host: str) -> None:
    assert asyncio.run(call(Server((), DEFAULT_LIMITS, None, local=True), "GET", "/health", host))[0] == 200


def test_vectors_that_nobody_waits_for_are_not_computed() -> None:
    """As when the server is interrupted: its requests are cancelled, and its threads have to end."""
    model = SlowEncoder()
    hosted = HostedEncoder(cast(Any, model), DEFAULT_LIMITS)

    async def interrupted() -> None:
        server, body = Server((hosted,), DEFAULT_LIMITS, None, local=True), {"model": "vectors", "input": ["a"] * TEXTS}
        request = asyncio.create_task(call(server, "POST", "/v1/embeddings", "localhost", body))
        await asyncio.to_thread(model.begun.wait, 30)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(interrupted())
    hosted._thread.shutdown(wait=True)
    assert 1 <= model.made < TEXTS


def test_a_wrong_number_of_dimensions_is_refused_before_anything_is_computed() -> None:
    model = SlowEncoder()
    server = Server((HostedEncoder(cast(Any, model), DEFAULT_LIMITS),), DEFAULT_LIMITS, None, local=True)
    body = {"model": "vectors", "input": "a", "dimensions": WIDTH + 1}
    status, held = asyncio.run(call(server, "POST", "/v1/embeddings", "localhost", body))
    assert (status, held["error"]["code"], held["error"]["param"]) == (400, "E633", "dimensions")
    assert not model.made


def test_an_engine_that_fails_is_not_the_requests_fault() -> None:
    status, held = as_body(InputError("The artifact could not be executed.", code="E157"))
    assert (status, held["error"]["type"]) == (500, "server_error")
