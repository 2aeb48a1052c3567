"""The device's side of adb's wire protocol: packets of 24 bytes and a payload, and the streams they carry.

Source: packages/modules/adb/protocol.txt of Android. Checksums are those of protocol version 0x01000000.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

VERSION, MAX_PAYLOAD = 0x01000000, 256 * 1024
FEATURES = "shell_v2,cmd,stat_v2,ls_v2,fixed_push_mkdir"
_HEADER = struct.Struct("<6I")
_TOKEN_KIND = 1


def command(name: str) -> int:
    """The number of a command: its four letters as a little-endian integer."""
    return int(struct.unpack("<I", name.encode())[0])


CNXN, OPEN, OKAY, WRTE, CLSE, AUTH = map(command, ("CNXN", "OPEN", "OKAY", "WRTE", "CLSE", "AUTH"))
Service = Coroutine[Any, Any, None]


@dataclass(frozen=True)
class Packet:
    kind: int
    first: int
    second: int
    payload: bytes = b""

    def encoded(self) -> bytes:
        checksum = sum(self.payload) & 0xFFFFFFFF
        head = _HEADER.pack(self.kind, self.first, self.second, len(self.payload), checksum, self.kind ^ 0xFFFFFFFF)
        return head + self.payload


async def read_packet(reader: asyncio.StreamReader) -> Packet:
    kind, first, second, length, _, magic = _HEADER.unpack(await reader.readexactly(_HEADER.size))
    if magic != kind ^ 0xFFFFFFFF:
        raise ConnectionError("no adb packet")
    return Packet(kind, first, second, await reader.readexactly(length))


class Stream:
    """One service's bytes in both directions; each packet sent waits for its acknowledgement."""

    def __init__(self, connection: Connection, own: int, theirs: int) -> None:
        self.connection, self.own, self.theirs = connection, own, theirs
        self.closed = False
        self.received: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.acknowledged = asyncio.Event()
        self._left = b""

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), self.connection.payload):
            if self.closed:
                raise ConnectionResetError
            self.acknowledged.clear()
            await self.connection.send(
                Packet(WRTE, self.own, self.theirs, data[start : start + self.connection.payload])
            )
            await self.acknowledged.wait()

    async def exactly(self, count: int) -> bytes:
        while len(self._left) < count:
            data = await self.received.get()
            if data is None:
                raise EOFError
            self._left += data
        data, self._left = self._left[:count], self._left[count:]
        return data

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            await self.connection.send(Packet(CLSE, self.own, self.theirs))


class Connection:
    """The connection of one adb server to the phone. ``authorised`` False: it is asked for a key and never accepted."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        banner: str,
        authorised: bool,
        service: Callable[[str, Stream], Service | None],
    ) -> None:
        self._reader, self._writer = reader, writer
        self._banner, self._authorised, self._service = banner, authorised, service
        self._streams: dict[int, Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0
        self.payload = MAX_PAYLOAD

    async def send(self, packet: Packet) -> None:
        self._writer.write(packet.encoded())
        await self._writer.drain()

    def cut(self) -> None:
        """Pull the cable."""
        self._writer.transport.abort()

    async def serve(self) -> None:
        handlers = {
            CNXN: self._connect,
            AUTH: self._ask,
            OPEN: self._open,
            WRTE: self._write,
            OKAY: self._okay,
            CLSE: self._close,
        }
        try:
            while True:
                packet = await read_packet(self._reader)
                await handlers[packet.kind](packet)
        except (asyncio.IncompleteReadError, ConnectionError, KeyError):
            pass
        finally:
            for stream in list(self._streams.values()):
                stream.closed = True
                stream.received.put_nowait(None)
                stream.acknowledged.set()
            self._writer.close()

    async def _connect(self, packet: Packet) -> None:
        self.payload = min(packet.second, MAX_PAYLOAD)
        if not self._authorised:
            await self._ask(packet)
            return
        await self.send(Packet(CNXN, VERSION, MAX_PAYLOAD, self._banner.encode()))

    async def _ask(self, packet: Packet) -> None:
        """A signature is refused with a new token; after the public key the phone waits for its owner."""
        if packet.kind == CNXN or packet.first == 2:
            await self.send(Packet(AUTH, _TOKEN_KIND, 0, b"edgec-loopback-token"))

    async def _open(self, packet: Packet) -> None:
        self._count += 1
        stream = Stream(self, self._count, packet.first)
        service = self._service(packet.payload.rstrip(b"\0").decode(), stream)
        if service is None:
            await self.send(Packet(CLSE, 0, packet.first))
            return
        self._streams[stream.own] = stream
        await self.send(Packet(OKAY, stream.own, packet.first))
        task = asyncio.ensure_future(self._guarded(service, stream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, service: Service, stream: Stream) -> None:
        try:
            await service
        except (EOFError, ConnectionError):
            pass
        finally:
            with suppress(ConnectionError):
                await stream.close()
            self._streams.pop(stream.own, None)

    async def _write(self, packet: Packet) -> None:
        if packet.second in self._streams:
            self._streams[packet.second].received.put_nowait(packet.payload)
            await self.send(Packet(OKAY, packet.second, packet.first))

    async def _okay(self, packet: Packet) -> None:
        if packet.second in self._streams:
            self._streams[packet.second].acknowledged.set()

    async def _close(self, packet: Packet) -> None:
        stream = self._streams.pop(packet.second, None)
        if stream is not None:
            await stream.close()
            stream.received.put_nowait(None)
            stream.acknowledged.set()
