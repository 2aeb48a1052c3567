"""The server's key, its limits of size, time and number, and the port it listens on."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest

from edgec.errors import InputError
from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.limits import DEFAULT_LIMITS
from edgec.runtime_py.serve.server import ServeOptions, address_of, bound, is_loopback, made_server, serve
from tests.runtime_py.serve.running import LONG, NAME, Running, running, script

ASK: list[Any] = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def strict(model: Model) -> Iterator[Running]:
    limits = replace(DEFAULT_LIMITS, body_bytes=2000, answer_seconds=1.5, waiting=1, body_seconds=1.0)
    with running(model, limits=limits, key="secret") as made:
        yield made


def test_a_key(strict: Running) -> None:
    for key in ("wrong", "", "secre", "é"):
        with contextlib.suppress(UnicodeEncodeError):
            status, held = strict.post("/v1/completions", {}, {"Authorization": f"Bearer {key}"})
            assert (status, held["error"]["code"]) == (401, "E636")
    made = strict.client(api_key="secret").completions.create(model=NAME, prompt="a", max_tokens=1)
    assert made.choices


@pytest.mark.long
def test_limits_of_size_and_time(strict: Running, model: Model) -> None:
    key = {"Authorization": "Bearer secret"}
    status, held = strict.post("/v1/completions", {"model": NAME, "prompt": "a" * 3000}, key)
    assert (status, held["error"]["code"]) == (413, "E635")
    script(model, LONG, wait=lambda: time.sleep(0.1))
    status, held = strict.post("/v1/chat/completions", {"model": NAME, "messages": ASK, "temperature": 0}, key)
    assert (status, held["error"]["code"]) == (504, "E637")
    with pytest.raises(openai.APIError, match="too long"):
        list(strict.client(api_key="secret").chat.completions.create(
            model=NAME, messages=ASK, temperature=0, stream=True))  # fmt: skip
    stalled = socket.create_connection(strict.place, 30)
    stalled.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n"
                    b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")  # fmt: skip
    assert b"400" in stalled.recv(100)
    stalled.close()


def test_a_queue_that_is_full(strict: Running, model: Model) -> None:
    gate = threading.Event()
    script(model, "Yes.", wait=lambda: gate.wait(30))
    key = {"Authorization": "Bearer secret"}
    body = {"model": NAME, "messages": ASK, "max_tokens": 1}
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(strict.post, "/v1/chat/completions", body, key) for _ in range(2)]
        while strict.hosted[0].waiting < 2:
            time.sleep(0.005)
        status, held = strict.post("/v1/chat/completions", body, key)
        gate.set()
        assert (status, held["error"]["code"]) == (429, "E638")
        assert {one.result()[0] for one in waiting} <= {200, 504}
    strict.settle()


def test_a_port_in_use_and_addresses_that_are_none() -> None:
    with bound("127.0.0.1", 0) as taken:
        assert address_of(taken).endswith(f":{taken.getsockname()[1]}/v1")
        with pytest.raises(InputError, match="another program") as caught, bound(*taken.getsockname()):
            pass
        assert caught.value.code == "E631"
    for host, port in (("192.0.2.1", 0), ("127.0.0.1", 70000), ("no host at all", 1)):
        with pytest.raises(InputError, match="E631"), bound(host, port):
            pass
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0")] == [True, True, True, False]


def test_bundles_of_one_name(tiny_bundle: Path) -> None:
    with pytest.raises(InputError, match="E639"), made_server(ServeOptions((tiny_bundle, tiny_bundle))):
        pass


def test_a_port_is_tried_before_anything_is_loaded(tmp_path: Path) -> None:
    with bound("127.0.0.1", 0) as taken:
        options = ServeOptions((tmp_path / "absent.edgec",), port=taken.getsockname()[1])
        with pytest.raises(InputError, match="E631"):
            serve(options, lambda _: None)
