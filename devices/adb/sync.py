"""Files over adb's ``sync:`` service, frame by frame, so that progress shows and every wait has a limit."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import IO

from edgec.devices.adb.faults import no_space
from edgec.devices.adb.link import Link
from edgec.errors import EdgecError, InputError

FRAME = 64 * 1024
_MODE = 0o100755


def send(link: Link, source: IO[bytes], size: int, remote: str, on_bytes: Callable[[int], None]) -> None:
    """Write ``size`` bytes of ``source``, from where it stands, to a file on the phone.

    Raises:
        InputError: E541 to E545.
    """
    with link.service("sync:") as connection:
        path = f"{remote},{_MODE}".encode()
        connection.conn.sendall(b"SEND" + struct.pack("<I", len(path)) + path)
        left = size
        while left and (frame := source.read(min(FRAME, left))):
            # In one piece: a header apart from its data would wait for the receiver's delayed acknowledgement.
            connection.conn.sendall(b"DATA" + struct.pack("<I", len(frame)) + frame)
            left -= len(frame)
            on_bytes(len(frame))
        connection.conn.sendall(b"DONE" + struct.pack("<I", int(time.time())))
        answer, length = struct.unpack("<4sI", connection.read_exact(8))
        if answer != b"OKAY":
            raise _refused(link, connection.read_exact(length).decode(errors="replace"), remote, size)


def receive(link: Link, remote: str, target: IO[bytes]) -> None:
    """Copy a file of the phone to ``target``.

    Raises:
        InputError: E541 to E544.
    """
    with link.service("sync:") as connection:
        path = remote.encode()
        connection.conn.sendall(b"RECV" + struct.pack("<I", len(path)) + path)
        while True:
            kind, length = struct.unpack("<4sI", connection.read_exact(8))
            if kind == b"DONE":
                return
            data = connection.read_exact(length)
            if kind != b"DATA":
                raise _refused(link, data.decode(errors="replace"), remote, 0)
            target.write(data)


def _refused(link: Link, said: str, remote: str, size: int) -> EdgecError:
    if "No space" in said:
        return no_space(link.where, size, None)
    what, fix = "The phone refuses a file.", "free some space, or restart the phone"
    return InputError(what, f"{link.where}:{remote}", said[:200], fix, "E547")
