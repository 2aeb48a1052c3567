"""The ``shell,v2`` service: commands really run, by /bin/sh, with ``getprop``, ``dumpsys`` and ``df`` of the phone."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.devices.phone.faults import Faults
from tests.devices.phone.wire import Stream

STDOUT, STDERR, EXIT = 1, 2, 3
PIECE = 32 * 1024


class ShellService:
    """One shell command. ``cut`` pulls the cable; a running command goes on, as on a phone."""

    def __init__(self, stream: Stream, script: str, faults: Faults, cut: Callable[[], None]) -> None:
        self._stream, self._script, self._faults, self._cut = stream, script, faults, cut

    async def serve(self, folder: Path, environment: Mapping[str, str]) -> None:
        if self._faults.hang and self._faults.hang in self._script:
            await asyncio.sleep(3600)
        while self._faults.drip and self._faults.drip in self._script:
            await self._write(STDOUT, b" ")
            await asyncio.sleep(0.05)
        process = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", self._script),
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout and process.stderr
        try:
            await asyncio.gather(self._pump(process.stdout, STDOUT), self._pump(process.stderr, STDERR))
            status = await process.wait()
            await self._write(EXIT, bytes([status if status >= 0 else 128 - status]))
        except ConnectionError:
            await asyncio.gather(_drained(process.stdout), _drained(process.stderr), return_exceptions=True)
            await process.wait()

    async def _pump(self, source: asyncio.StreamReader, kind: int) -> None:
        marker, seen = self._faults.cut_shell_at, b""
        while data := await source.read(PIECE):
            await self._write(kind, data)
            seen += data
            if marker is not None and marker in seen and self._faults.strike():
                self._cut()

    async def _write(self, kind: int, data: bytes) -> None:
        await self._stream.write(struct.pack("<BI", kind, len(data)) + data)


async def _drained(source: asyncio.StreamReader) -> None:
    while await source.read(PIECE):
        pass
