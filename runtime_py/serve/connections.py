"""Connections that end in time, so that nobody keeps others out by opening many and saying nothing.

A request's head must arrive within a time, and so must what a client is sent. Where there is no room, a new connection
takes the place of the oldest one that has sent no whole request, of the address that holds most of those.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Collection
from itertools import count
from typing import ClassVar, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from edgec.runtime_py.serve.limits import ServeLimits

_HOME_BITS: Final = 64  # an IPv6 network of this size is one client's, who may use any address of it
_ORDER: Final = count()


class TimedConnection(H11Protocol):
    """One client's connection; uvicorn makes one for each. `timed` gives the limits."""

    limits: ClassVar[ServeLimits]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, and drop another connection where there is no room."""
        super().connection_made(transport)
        self.network = network_of(self.client[0] if self.client else "")
        self.order, self._deadline = next(_ORDER), self.loop.call_later(self.limits.head_seconds, transport.abort)
        self._take_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._deadline.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read; the first byte after an answer begins the time of the next request's head."""
        super().data_received(data)
        if self.transport.is_closing() or self.flow.write_paused:
            return
        if self._answering:
            self._deadline.cancel()
        elif self._deadline.cancelled():
            self._expect(self.limits.head_seconds)

    def pause_writing(self) -> None:
        """Begin to wait for the client to read."""
        super().pause_writing()
        self._expect(self.limits.send_seconds)

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._deadline.cancel()

    def on_response_complete(self) -> None:
        """After an answer: a connection that is being closed must be read to its end in time."""
        super().on_response_complete()
        self._end_in_time()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        super().send_400_response(msg)
        self._end_in_time()

    def timeout_keep_alive_handler(self) -> None:
        """Close, as no further request has come."""
        super().timeout_keep_alive_handler()
        self._end_in_time()

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def idle(self) -> bool:
        """Whether no whole request of the client waits for its answer."""
        return not self._answering or self.cycle.more_body

    def _expect(self, seconds: float) -> None:
        self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _end_in_time(self) -> None:
        if self.transport.is_closing():
            self._expect(self.limits.send_seconds)

    def _take_room(self) -> None:
        """Drop an idle connection where there are too many, of all or of this network; else refuse its requests."""
        others = [one for one in self.connections if isinstance(one, TimedConnection) and one is not self]
        near = [one for one in others if one.network == self.network]
        limits = self.limits
        if self.network and len(near) >= limits.address_connections:
            room = _drop_one(near)
        else:
            room = len(others) < limits.connections or _drop_one(others)
        self.limit_concurrency = None if room else 0  # of none: uvicorn answers 503


def _drop_one(connections: Collection[TimedConnection]) -> bool:
    """End the oldest idle connection of the network that has most of them; whether there was one."""
    idle = [one for one in connections if one.idle]
    if not idle:
        return False
    held = Counter(one.network for one in idle)
    chosen = min(idle, key=lambda one: (-held[one.network], one.order))
    chosen.transport.abort()
    chosen.connections.discard(chosen)
    return True


def network_of(host: str) -> str:
    """What stands for one client: an address, of IPv6 the network; empty for this machine, which has no share."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return ""
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback:
        return ""
    bits = _HOME_BITS if address.version == 6 else address.max_prefixlen
    return str(ipaddress.ip_network((address, bits), strict=False))


def timed(limits: ServeLimits) -> type[TimedConnection]:
    """The class of a server's connections."""
    return type(TimedConnection.__name__, (TimedConnection,), {"limits": limits})
