"""The ``sync:`` service: SEND, RECV and STAT of adb's file protocol (SYNC.TXT of Android's adb)."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path

from tests.devices.phone.faults import Faults
from tests.devices.phone.wire import Stream

FRAME = 64 * 1024


class SyncService:
    """One file transfer to or from the phone. ``cut`` pulls the cable."""

    def __init__(self, stream: Stream, local: Callable[[str], Path], faults: Faults, cut: Callable[[], None]) -> None:
        self._stream, self._local, self._faults, self._cut = stream, local, faults, cut

    async def serve(self) -> None:
        handlers = {b"SEND": self._send, b"RECV": self._recv, b"STAT": self._stat}
        while True:
            kind, length = struct.unpack("<4sI", await self._stream.exactly(8))
            if kind == b"QUIT" or kind not in handlers:
                return
            await handlers[kind]((await self._stream.exactly(length)).decode())

    async def _stat(self, path: str) -> None:
        target = self._local(path)
        status = target.stat() if target.exists() else None
        fields = (status.st_mode, status.st_size, int(status.st_mtime)) if status else (0, 0, 0)
        await self._stream.write(b"STAT" + struct.pack("<III", *fields))

    async def _send(self, request: str) -> None:
        path, mode = request.rsplit(",", 1)
        target, fault = self._local(path), ""
        # As adbd does, also where somebody has just removed the folder.
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            while True:
                kind, length = struct.unpack("<4sI", await self._stream.exactly(8))
                if kind == b"DONE":
                    break
                file.write(self._spoiled(await self._stream.exactly(length)))
                file.flush()
                await asyncio.sleep(self._faults.push_pause_s)
                fault = self._after(length)
                if fault:
                    break
        if fault:
            await self._fail(f"couldn't write: {fault}")
            return
        target.chmod(int(mode) & 0o777)
        await self._stream.write(b"OKAY" + bytes(4))

    def _spoiled(self, data: bytes) -> bytes:
        if self._faults.corrupt <= 0 or len(data) < 1000:
            return data
        self._faults.corrupt -= 1
        return bytes([data[0] ^ 1]) + data[1:]

    def _after(self, length: int) -> str:
        self._faults.pushed += length
        limit = self._faults.cut_push_after
        if limit is not None and self._faults.pushed >= limit and self._faults.strike():
            self._cut()
        full = self._faults.full_after
        return "No space left on device" if full is not None and self._faults.pushed > full else ""

    async def _recv(self, path: str) -> None:
        target = self._local(path)
        if not target.is_file():
            await self._fail("open failed: No such file or directory")
            return
        with target.open("rb") as file:
            while data := file.read(FRAME):
                if self._faults.cut_pull_of == target.name and self._faults.strike():
                    await self._stream.write(b"DATA" + struct.pack("<I", len(data)) + data[: len(data) // 2])
                    self._cut()
                await self._stream.write(b"DATA" + struct.pack("<I", len(data)) + data)
        await self._stream.write(b"DONE" + bytes(4))

    async def _fail(self, text: str) -> None:
        await self._stream.write(b"FAIL" + struct.pack("<I", len(text)) + text.encode())
