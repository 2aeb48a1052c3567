"""A loopback server of a bundle's parts that fails in the ways in which servers, networks and caches fail."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

STALL_S = 20.0
Fault = Callable[["Answer"], None]


class PartsServer(ThreadingHTTPServer):
    """Serves a folder; `faults` says what goes wrong with each request, by its file name and number."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.folder = folder
        self.asked: list[tuple[str, int]] = []
        self.faults: Callable[[str, int], Fault | None] = lambda name, number: None
        self.stopped = threading.Event()

    @property
    def url(self) -> str:
        """The address of the folder of parts."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing where a client has left."""


class Answer(BaseHTTPRequestHandler):
    """One request, with the file that it asks for."""

    protocol_version = "HTTP/1.1"
    server: PartsServer

    def do_GET(self) -> None:
        """Answer, or fail as the test says."""
        self.name = self.path.partition("?")[0].rpartition("/")[2]
        asked = self.headers.get("Range", "bytes=0-")
        self.first = int(asked.removeprefix("bytes=").partition("-")[0])
        self.server.asked.append((self.name, self.first))
        fault = self.server.faults(self.name, len(self.server.asked))
        path = self.server.folder / self.name
        self.whole = path.read_bytes() if path.is_file() else b""
        if fault is not None:
            fault(self)
        elif path.is_file():
            self.give(self.whole[self.first :])
        else:
            status(404)(self)

    def give(
        self, body: bytes, *, code: int | None = None, first: int | None = None, length: int | None = None
    ) -> None:
        """Send a body, with headers that need not be true."""
        at = self.first if first is None else first
        self.send_response(code or (206 if self.first else 200))
        self.send_header("Content-Length", str(len(body) if length is None else length))
        if (code or 206) == 206 and self.first:
            self.send_header("Content-Range", f"bytes {at}-{len(self.whole) - 1}/{len(self.whole)}")
        self.end_headers()
        self.wfile.write(body)

    def cut(self) -> None:
        """End the connection without a word, and what is under way with it."""
        self.close_connection = True
        with suppress(OSError):
            self.wfile.flush()
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


def cut_after(count: int) -> Fault:
    """The connection ends after so many bytes of the body."""

    def fault(answer: Answer) -> None:
        rest = answer.whole[answer.first :]
        answer.give(rest[:count], length=len(rest))
        answer.cut()

    return fault


def cut_at_once(answer: Answer) -> None:
    """The connection ends before a word was said."""
    answer.cut()


def changed(answer: Answer) -> None:
    """One bit of the body is another."""
    rest = bytearray(answer.whole[answer.first :])
    rest[len(rest) // 2] ^= 4
    answer.give(bytes(rest))


def longer(answer: Answer) -> None:
    """More bytes come than the file has."""
    answer.give(answer.whole[answer.first :] + bytes(5000))


def shorter(answer: Answer) -> None:
    """The length says less than the file has, and no more comes."""
    rest = answer.whole[answer.first :]
    answer.give(rest[: max(1, len(rest) // 2)])


def empty(answer: Answer) -> None:
    """Nothing comes, as if that were all."""
    answer.give(b"")


def whole_always(answer: Answer) -> None:
    """A server that does not know ranges."""
    answer.give(answer.whole, code=200)


def other_range(answer: Answer) -> None:
    """Bytes from another place than was asked for."""
    answer.give(answer.whole[answer.first // 2 :], first=answer.first // 2)


def lying_range(answer: Answer) -> None:
    """Bytes from another place, under the range that was asked for."""
    answer.give(answer.whole[: len(answer.whole) - answer.first])


def stall(answer: Answer) -> None:
    """Some bytes, then nothing for a long time."""
    rest = answer.whole[answer.first :]
    answer.give(rest[: len(rest) // 2], length=len(rest))
    answer.server.stopped.wait(STALL_S)
    answer.cut()


def silent(answer: Answer) -> None:
    """Headers, then nothing for a long time."""
    answer.give(b"", length=len(answer.whole) - answer.first)
    answer.server.stopped.wait(STALL_S)
    answer.cut()


def endless(answer: Answer) -> None:
    """White space without an end."""
    answer.send_response(200)
    answer.end_headers()
    answer.close_connection = True
    with suppress(OSError):
        while not answer.server.stopped.is_set():
            answer.wfile.write(b" " * 65536)


def status(code: int) -> Fault:
    """An answer with a status and a page about it."""

    def fault(answer: Answer) -> None:
        answer.give(b"" if code == 204 else b"<html>sorry</html>", code=code)

    return fault


def redirect(target: str) -> Fault:
    """An answer that leads to the same file below another address."""

    def fault(answer: Answer) -> None:
        answer.send_response(302)
        answer.send_header("Location", f"{target}/{answer.name}")
        answer.send_header("Content-Length", "0")
        answer.end_headers()

    return fault


@contextmanager
def serving(folder: Path) -> Iterator[PartsServer]:
    """A server of a folder, on a free port, while the block runs."""
    with PartsServer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.stopped.set()
            server.shutdown()
            thread.join()
