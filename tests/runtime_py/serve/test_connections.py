"""Connections that say nothing, little or too slowly, and those that read nothing: none of them keeps others out."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from edgec.runtime_py.model import Model
from edgec.runtime_py.serve import connections
from edgec.runtime_py.serve.connections import network_of
from edgec.runtime_py.serve.limits import DEFAULT_LIMITS
from tests.runtime_py.serve.running import ASK, NAME, Running, running, script

HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
POST = (
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
)
MOST = 6


@pytest.fixture(scope="module")
def impatient(model: Model) -> Iterator[Running]:
    with running(model, limits=replace(DEFAULT_LIMITS, head_seconds=0.5, send_seconds=1.0)) as made:
        yield made


@pytest.fixture
def narrow(model: Model) -> Iterator[Running]:
    """A server with few places and much patience."""
    with running(model, limits=replace(DEFAULT_LIMITS, connections=MOST, address_connections=2)) as made:
        yield made


def opened(place: tuple[str, int], said: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    made = socket.create_connection(place, 30, (source, 0))
    made.sendall(said)
    return made


def ended(client: socket.socket) -> bool:
    """Whether the server closed a connection, after whatever it answered; waits for it."""
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def status(client: socket.socket) -> bytes:
    client.sendall(HEAD + b"\r\n")
    return client.recv(1 << 16).split(b" ")[1]


@pytest.mark.long
@pytest.mark.parametrize("said", [b"", b"G", HEAD, HEAD + b"\r\n" + HEAD, b"\x00\r\n\r\n"])
def test_who_sends_no_whole_head_is_closed(impatient: Running, said: bytes) -> None:
    assert ended(opened(impatient.place, said))


@pytest.mark.parametrize(
    "begun",
    [
        HEAD,
        HEAD + b"\r\n" + HEAD,  # the second of two
        POST.replace(b"/v1/completions", b"/health"),  # a body that nobody reads
        POST.replace(b"application/json", b"text/plain"),
    ],
)
def test_a_byte_now_and_then_does_not_help(impatient: Running, begun: bytes) -> None:
    client = opened(impatient.place, begun)
    client.settimeout(0.1)
    gone = False
    for _ in range(300):
        try:
            client.sendall(b"x")
            gone = client.recv(1 << 16) == b""
        except TimeoutError:
            continue
        except OSError:
            gone = True
        if gone:
            break
    assert gone


@pytest.mark.long  # the system's own buffers take megabytes of answers
def test_who_reads_nothing_is_closed(impatient: Running) -> None:
    client = opened(impatient.place)
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        for _ in range(100_000):
            client.sendall((HEAD + b"\r\n") * 100)


def test_an_answer_takes_longer_than_a_head_may(impatient: Running, model: Model) -> None:
    script(model, "Yes.", wait=lambda: time.sleep(0.3))
    code, held = impatient.post("/v1/chat/completions", {"model": NAME, "messages": ASK, "max_tokens": 4})
    assert code == 200 and held["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize("said", [b"", HEAD, POST])
def test_silent_connections_keep_nobody_out(narrow: Running, said: bytes) -> None:
    silent = [opened(narrow.place, said) for _ in range(3 * MOST)]
    assert status(opened(narrow.place)) == b"200"
    assert all(ended(one) for one in silent[: 2 * MOST + 1])
    silent[-1].settimeout(0.2)
    assert not ended(silent[-1])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere loopback has one address only")
def test_each_address_has_a_share(narrow: Running, monkeypatch: pytest.MonkeyPatch, model: Model) -> None:
    monkeypatch.setattr(connections, "network_of", lambda host: host)
    gate = threading.Event()
    script(model, "Yes.", wait=lambda: gate.wait(30))
    waiting = [narrow.sent({"max_tokens": 1}) for _ in range(2)]
    while narrow.hosted[0].waiting < 2:
        pass
    assert status(opened(narrow.place)) == b"503"
    assert status(opened(narrow.place, source="127.0.0.2")) == b"200"
    gate.set()
    assert all(one.recv(100).split(b" ")[1] == b"200" for one in waiting)


def test_what_stands_for_one_client() -> None:
    one, other = "2001:db8::1", "2001:db8::2:1"
    assert network_of(one) == network_of(other) == "2001:db8::/64"
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") != network_of("192.0.2.2")
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert [network_of(host) for host in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "")] == [""] * 4
