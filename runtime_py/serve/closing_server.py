"""A server that ends its answers properly when it is told to stop: each in time, or with an error as its last event."""

from __future__ import annotations

import asyncio
import socket

import uvicorn

from edgec.runtime_py.serve.stopping import Closing


class ClosingServer(uvicorn.Server):
    """uvicorn's server, which takes no connections once it is told to stop, and waits for those that are open."""

    def __init__(self, config: uvicorn.Config, closing: Closing, seconds: float) -> None:
        """Let answers go on for so many seconds, and then end what ``closing`` knows."""
        super().__init__(config)
        self._closing, self._seconds = closing, seconds

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop; a second interruption does not wait."""
        ending = asyncio.create_task(self._end_later())
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()

    async def _end_later(self) -> None:
        await asyncio.sleep(self._seconds)
        self._closing.end()
