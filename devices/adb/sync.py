"""File transfer over adb's ``sync:`` service, frame by frame, so that progress shows and every wait has a limit."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import IO

from edgec.devices.adb.faults import no_space, too_much, unreadable
from edgec.devices.adb.link import ANSWER_BYTES, ANSWER_S, AdbLink, exactly
from edgec.devices.answers import plain
from edgec.errors import EdgecError, InputError

FRAME = 64 * 1024
SLOWEST_BYTES_PER_S = 128 * 1024
"""USB 1.1 carries five times as much."""
_MODE = 0o100755


def send(link: AdbLink, source: IO[bytes], size: int, remote: str, on_bytes: Callable[[int], None]) -> None:
    """Write ``size`` bytes of ``source``, from where it stands, to a file on the phone.

    Raises:
        InputError: E541 to E545, E575.
    """
    with link.service("sync:") as connection:
        deadline = time.monotonic() + _limit_s(size)
        path = f"{remote},{_MODE}".encode()
        connection.conn.sendall(b"SEND" + struct.pack("<I", len(path)) + path)
        left = size
        while left and (frame := source.read(min(FRAME, left))):
            connection.conn.settimeout(max(0.001, deadline - time.monotonic()))
            # In one piece: a header apart from its data would wait for the receiver's delayed acknowledgement.
            connection.conn.sendall(b"DATA" + struct.pack("<I", len(frame)) + frame)
            left -= len(frame)
            on_bytes(len(frame))
        connection.conn.sendall(b"DONE" + struct.pack("<I", int(time.time())))
        answer, length = struct.unpack("<4sI", exactly(connection, 8, deadline))
        if answer != b"OKAY":
            raise _refused(link, exactly(connection, min(length, FRAME), deadline), remote, size)


def receive(link: AdbLink, remote: str, target: IO[bytes], most_bytes: int = ANSWER_BYTES) -> None:
    """Copy a file of the phone, of at most ``most_bytes``, to ``target``.

    Raises:
        InputError: E541 to E544, E575.
    """
    with link.service("sync:") as connection:
        start, come = time.monotonic(), 0
        path = remote.encode()
        connection.conn.sendall(b"RECV" + struct.pack("<I", len(path)) + path)
        while True:
            deadline = start + _limit_s(come)
            kind, length = struct.unpack("<4sI", exactly(connection, 8, deadline))
            if kind == b"DONE":
                return
            if length > FRAME or kind not in (b"DATA", b"FAIL"):
                raise unreadable(
                    link.where, f"its adb sends {kind!r} of {length:,} bytes, which is not part of the protocol"
                )
            data = exactly(connection, length, deadline)
            if kind == b"FAIL":
                raise _refused(link, data, remote, 0)
            come += length
            if come > most_bytes:
                raise too_much(link.where, most_bytes)
            target.write(data)


def _limit_s(size: int) -> float:
    """The longest that a transfer of so many bytes may take."""
    return ANSWER_S + size / SLOWEST_BYTES_PER_S


def _refused(link: AdbLink, answer: bytes, remote: str, size: int) -> EdgecError:
    said = plain(answer.decode(errors="replace"))
    if "No space" in said:
        return no_space(link.where, size, None)
    what, fix = "The phone refused a file.", "free some space, or restart the phone"
    return InputError(what, f"{link.where}:{remote}", said, fix, "E547")
