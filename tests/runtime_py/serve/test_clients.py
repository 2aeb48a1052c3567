"""Clients that go, stall or send what a server cannot read; other addresses, types and models."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.answering import EventStream
from edgec.runtime_py.serve.hosted import Answer
from tests.runtime_py.serve.running import ASK, LONG, NOW, Running, script


@pytest.mark.long
@pytest.mark.parametrize("body", [{"stream": True}, {"stream": False}, {"stream": True, "tools": [NOW]}])
def test_a_closed_connection_stops_decoding_within_a_token(server: Running, model: Model, body: dict[str, Any]) -> None:
    gate, reached = threading.Semaphore(4), threading.Event()

    def wait() -> None:
        if not gate.acquire(blocking=False):
            reached.set()
            assert gate.acquire(timeout=30)

    earlier = {id(one) for one in gc.get_objects() if isinstance(one, Answer)}
    calls = script(model, LONG, wait=wait)
    client = server.sent(body)
    assert reached.wait(30)
    client.close()
    deadline = time.monotonic() + 20
    answers = [one for one in gc.get_objects() if isinstance(one, Answer) and id(one) not in earlier]
    assert len(answers) == 1
    while not answers[0]._stopped.is_set():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    for _ in range(50):  # The call that waits may go on, and as many more as it likes.
        gate.release()
    server.settle()
    # The call that was under way when the client went is the last one.
    assert len(calls) == 5


def test_a_client_that_goes_while_it_waits_is_never_answered(server: Running, model: Model) -> None:
    gate = threading.Event()
    calls = script(model, "Yes.", wait=lambda: gate.wait(30))
    first = server.sent({"max_tokens": 3})
    while server.hosted[0].waiting < 1:
        time.sleep(0.005)
    second = server.sent({"messages": [{"role": "user", "content": "Other"}]})
    while server.hosted[0].waiting < 2:
        time.sleep(0.005)
    second.close()
    while server.hosted[0].waiting > 1:
        time.sleep(0.005)
    gate.set()
    assert first.recv(12) == b"HTTP/1.1 200"
    first.close()
    server.settle()
    assert len(calls) <= 4


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"3", b"\xff\xfe", b"null", b'{"model": 3}', b"[" * 10000, b'{"model": "tiny"}',
     b'{"model":"tiny","messages":"x"}', b'{"model":"tiny","messages":[' + b'{"role":"user","content":"' * 9],
)  # fmt: skip
def test_bodies_that_are_none(server: Running, raw: bytes) -> None:
    status, held = server.post("/v1/chat/completions", raw)
    assert (status, held["error"]["code"]) == (400, "E632")


def test_other_addresses_types_and_models(server: Running) -> None:
    assert server.post("/v1/audio/speech", {})[0] == 404
    assert server.post("/v1/models", {})[1]["error"]["code"] == "E634"
    status, held = server.post("/v1/chat/completions", {}, {"Content-Type": "text/plain"})
    assert (status, held["error"]["code"]) == (400, "E632")
    status, held = server.post("/v1/chat/completions", {"model": "gpt", "messages": ASK})
    assert (status, held["error"]["param"]) == (404, "model")
    status, held = server.post("/v1/chat/completions", {}, {"Host": "evil.example"})
    assert (status, held["error"]["code"]) == (403, "E640")


def test_a_client_that_stops_reading_is_taken_for_gone() -> None:
    class Stopped:
        count = 0

        def stop(self) -> None:
            self.count += 1

    async def events() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"data: x\n\n"

    async def main(hangs: bool) -> tuple[int, int]:
        sent, answer = 0, Stopped()

        async def send(message: Any) -> None:
            nonlocal sent
            sent += 1
            if hangs and sent == 4:
                await asyncio.Event().wait()

        watcher: asyncio.Task[None] = asyncio.create_task(asyncio.sleep(60))
        stream = EventStream(answer.stop, events(), watcher, 0.05)
        await stream({}, None, send)  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert watcher.cancelled()
        return sent, answer.count

    assert asyncio.run(main(hangs=True)) == (4, 1)
    assert asyncio.run(main(hangs=False)) == (102, 1)
