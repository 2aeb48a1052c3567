"""Clients that go, stall, come in numbers or send nonsense; keys, hosts and ports; nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.app import EventStream
from edgec.runtime_py.serve.hosted import Answer
from tests.example_counts import examples
from tests.runtime_py.serve.running import LONG, NAME, NOW, Running, script

ASK: list[Any] = [{"role": "user", "content": "Hi"}]


def sent(server: Running, body: dict[str, Any]) -> socket.socket:
    """A connection on which a request was sent and nothing was read."""
    raw = json.dumps({"model": NAME, "messages": ASK, "temperature": 0, **body}).encode()
    client = socket.create_connection(server.place, 30)
    lines = ("POST /v1/chat/completions HTTP/1.1", "Host: localhost", "Content-Type: application/json")
    head = "\r\n".join([*lines, f"Content-Length: {len(raw)}", "", ""])
    client.sendall(head.encode() + raw)
    return client


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
    client = sent(server, body)
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
    first = sent(server, {"max_tokens": 3})
    while server.hosted[0].waiting < 1:
        time.sleep(0.005)
    second = sent(server, {"messages": [{"role": "user", "content": "Other"}]})
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


def test_twenty_clients_at_once_with_cancellations(server: Running, model: Model) -> None:
    expected = model.chat("").send("Hi", max_new_tokens=10).text

    client = server.client()

    def whole(_: int) -> str | None:
        made = client.chat.completions.create(model=NAME, messages=ASK, temperature=0, max_tokens=10)
        return made.choices[0].message.content

    def cancelled(place: int) -> None:
        stream = client.chat.completions.create(model=NAME, messages=ASK, temperature=1, max_tokens=60, stream=True)
        for count, _ in enumerate(stream):
            if count == place % 3:
                stream.close()
                return

    with ThreadPoolExecutor(20) as pool:
        left = [pool.submit(cancelled, place) for place in range(10)]
        texts = list(pool.map(whole, range(10)))
        for one in left:
            one.result()
    assert texts == [expected] * 10
    server.settle()


def _one(server: Running, client: openai.OpenAI, place: int) -> None:
    match place % 5:
        case 0:
            client.chat.completions.create(model=NAME, messages=ASK, max_tokens=3)
        case 1:
            stream = client.chat.completions.create(model=NAME, messages=ASK, max_tokens=6, stream=True)
            next(iter(stream))
            stream.close()
        case 2:
            list(client.completions.create(model=NAME, prompt="Once", max_tokens=3, stream=True, logprobs=2))
        case 3:
            with pytest.raises(openai.BadRequestError):
                client.chat.completions.create(model=NAME, messages=ASK, n=3)
        case _:
            sent(server, {"max_tokens": 5}).close()


def _held() -> tuple[int, int, int]:
    gc.collect()
    answers = sum(isinstance(one, Answer) for one in gc.get_objects())
    return threading.active_count(), len(os.listdir("/proc/self/fd")), answers


@pytest.mark.long
@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_nothing_is_left_behind(server: Running, count: int) -> None:
    client = server.client()
    for place in range(10):
        _one(server, client, place)
    server.settle()
    time.sleep(0.2)
    before = _held()
    for place in range(count):
        _one(server, client, place)
    server.settle()
    deadline = time.monotonic() + 20
    while (after := _held())[1:] > before[1:] and time.monotonic() < deadline:
        time.sleep(0.05)
    # Threads of the pool for blocking calls come as they are needed, up to a bound of their own.
    assert after[0] <= before[0] + 40
    assert after[1] <= before[1] + 3 and after[2] <= before[2] + 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = ("messages", "prompt", "stream", "stop", "tools", "tool_choice", "response_format", "temperature", "seed",
        "logprobs", "top_logprobs", "max_tokens", "stream_options", "thinking_budget", "x")  # fmt: skip


@settings(max_examples=examples(40), deadline=None)
@given(
    change=st.dictionaries(st.sampled_from(KEYS), JSON, min_size=1, max_size=3),
    path=st.sampled_from(["chat/completions", "completions"]),
)
def test_fuzzed_bodies_are_answered_or_refused(server: Running, change: dict[str, Any], path: str) -> None:
    base = {"model": NAME, "max_tokens": 1, **({"messages": ASK} if path.startswith("chat") else {"prompt": "a"})}
    try:
        raw = json.dumps(base | change).encode()
    except ValueError:
        return
    if change.get("stream") is True:
        return
    status, held = server.post(f"/v1/{path}", raw)
    assert status in (200, 400, 422), held
    if status != 200:
        assert held["error"]["code"].startswith("E")


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
        stream = EventStream(answer, events(), watcher, 0.05)  # type: ignore[arg-type]
        await stream({}, None, send)  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert watcher.cancelled()
        return sent, answer.count

    assert asyncio.run(main(hangs=True)) == (4, 1)
    assert asyncio.run(main(hangs=False)) == (102, 1)
