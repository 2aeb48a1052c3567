"""Messages between two processes: a JSON object, and bytes beside it, over a socket."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

# To the process that others are forked from, a letter and a process's number; back, a number.
ORDER: Final = struct.Struct("<cI")
ANSWER: Final = struct.Struct("<i")
FORK, END = b"f", b"e"
# What errors name where a message does not say what kind of thing it is about.
TEXT: Final = "structured output"
_HEAD: Final = struct.Struct("<II")
_MOST: Final = 256 << 20
_PIECE: Final = 1 << 20
# How long nothing is asked while an answer is waited for.
TICK_S: Final = 0.05


class MessageSocket:
    """One end of a socket that both sides send whole messages on; for one thread at a time."""

    def __init__(self, connected: socket.socket) -> None:
        """Use a connected stream socket, which is closed with the channel."""
        self._socket = connected

    def send(self, message: Mapping[str, Any], payload: bytes = b"", seconds: float | None = None) -> None:
        """Send a message. Raises OSError: the other side has ended, or does not read within the seconds."""
        held = json.dumps(message).encode()
        self._socket.settimeout(seconds)
        self._socket.sendall(_HEAD.pack(len(held), len(payload)) + held)
        if payload:
            self._socket.sendall(payload)

    def receive(
        self, seconds: float | None = None, waiting: Callable[[], None] = lambda: None
    ) -> tuple[dict[str, Any], bytes]:
        """Wait for the next message.

        Args:
            seconds: the longest wait; None for any.
            waiting: called now and then meanwhile; what it raises ends the wait, and the channel is of no use then.

        Raises:
            OSError: the other side has ended (EOFError), or sent nothing in time (TimeoutError).
        """
        end = None if seconds is None else time.monotonic() + seconds
        self._socket.settimeout(None if seconds is None else TICK_S)
        sizes = _HEAD.unpack(self._read(_HEAD.size, end, waiting))
        if max(sizes) > _MOST:
            raise ConnectionError("the message is too large")
        message, payload = (self._read(size, end, waiting) for size in sizes)
        return dict(json.loads(message)), bytes(payload)

    def _read(self, size: int, end: float | None, waiting: Callable[[], None]) -> bytearray:
        out = bytearray()
        while len(out) < size:
            try:
                part = self._socket.recv(min(size - len(out), _PIECE))
            except TimeoutError:
                waiting()
                if end is not None and time.monotonic() > end:
                    raise
                continue
            if not part:
                raise ConnectionError("the other side has ended")
            out += part
        return out

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
