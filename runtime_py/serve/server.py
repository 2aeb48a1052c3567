"""``edgec serve``: loads bundles, binds a port, and answers until it is interrupted."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgec.bundle.folder import Bundle
from edgec.errors import InputError, ToolError
from edgec.installation import install_command
from edgec.runtime_py.model import load
from edgec.runtime_py.serve.bodies import HINTS
from edgec.runtime_py.serve.limits import DEFAULT_LIMITS, ServeLimits

if TYPE_CHECKING:
    import uvicorn

    from edgec.runtime_py.serve.hosting import Served

KEY_VARIABLE: Final = "EDGEC_API_KEY"
_BACKLOG: Final = 128
_HIGHEST: Final = 65535
_ENDING_SECONDS: Final = 3


@dataclass(frozen=True)
class ServeOptions:
    """The command's options.

    Attributes:
        bundles: their folders.
        host: the address to bind; loopback by default.
        port: 0 for any free one.
        key: the key that requests must have; None takes EDGEC_API_KEY, and none where that is unset.
        threads: CPU threads; None leaves the choice to the runtime.
        limits: what one request may take.
        adapters: ``NAME=FILE`` of each adapter; requests name ``BUNDLE:NAME``.
        public_key: of whoever signed the bundles, a PEM file; None checks no signature.
    """

    bundles: tuple[Path | Bundle, ...]
    host: str = "127.0.0.1"
    port: int = 8080
    key: str | None = None
    threads: int | None = None
    limits: ServeLimits = DEFAULT_LIMITS
    adapters: tuple[str, ...] = ()
    public_key: Path | None = None


def serve(options: ServeOptions, ready: Callable[[str], None], note: Callable[[str], None] = lambda _: None) -> None:
    """Serve bundles until the process is interrupted.

    Args:
        options: what to serve, and where.
        ready: called with the address of the API once requests are answered.
        note: called with what a user should know: which bundles answer one request after the other and why, which
            parameters have no effect, that others may reach the server without a key.

    Raises:
        InputError: E631, the port is in use or the address is none of this machine's; E639, two bundles have one name;
            E645, a bundle's state exceeds the memory given; E695, E696, E700, an adapter cannot be served; E13x, E155,
            E157, E158, E601 to E605 as `edgec.load`.
        ToolError: E630, starlette or uvicorn is not installed; E697, an adapter needs edgec's engine.
    """
    _require_libraries()
    if not is_loopback(options.host) and not _key(options):
        note(f"{options.host} may be reached from other machines, and requests need no key: give --api-key")
    with bound(options.host, options.port) as listening, made_server(options, note) as server:
        note(f"taken, and without effect on answers: {', '.join(HINTS)}")
        ready(address_of(listening))
        server.run(sockets=[listening])


@contextmanager
def made_server(options: ServeOptions, note: Callable[[str], None] = lambda _: None) -> Iterator[uvicorn.Server]:
    """An ASGI server over loaded bundles, which are let go at the end. Takes arguments and raises as `serve`."""
    _require_libraries()
    from edgec.runtime_py.serve.adapters import read_adapters, refuse_unused
    from edgec.runtime_py.serve.hosted import Hosted
    from edgec.runtime_py.serve.hosting import hosted_of

    hosted: list[Served] = []
    adapters = read_adapters(options.adapters)
    try:
        for bundle in options.bundles:
            model = load(bundle, options.threads, public_key=options.public_key)
            hosted.append(hosted_of(model, options.limits, adapters))
            _require_other_name([one.name for one in hosted])
            if isinstance(hosted[-1], Hosted) and hosted[-1].slots.why:
                note(f"{hosted[-1].name}: one answer at a time: {hosted[-1].slots.why}")
        refuse_unused(adapters, hosted)
        yield server_of(hosted, options.limits, _key(options), local=is_loopback(options.host))
    finally:
        for one in hosted:
            one.close()


def _key(options: ServeOptions) -> str | None:
    return (options.key if options.key is not None else os.environ.get(KEY_VARIABLE)) or None


def server_of(hosted: Sequence[Served], limits: ServeLimits, key: str | None, *, local: bool) -> uvicorn.Server:
    """An ASGI server over hosted bundles; for the arguments see `edgec.runtime_py.serve.app.Server`."""
    import uvicorn

    from edgec.runtime_py.serve.app import Server
    from edgec.runtime_py.serve.closing_server import ClosingServer
    from edgec.runtime_py.serve.connections import timed

    server = Server(hosted, limits, key, local)
    config = uvicorn.Config(
        server.app(),
        http=timed(limits),
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=round(limits.closing_seconds) + _ENDING_SECONDS,
    )
    return ClosingServer(config, server.closing, limits.closing_seconds)


def _require_libraries() -> None:
    try:
        import starlette
        import uvicorn
    except ImportError as cause:
        raise ToolError(
            "Serving needs starlette and uvicorn, which are not installed.",
            where="edgec serve",
            why=str(cause),
            fix=install_command("serve"),
            code="E630",
        ) from cause
    assert starlette is not None
    assert uvicorn is not None


def _require_other_name(names: Sequence[str]) -> None:
    if names.count(names[-1]) > 1:
        raise InputError(
            f"Two bundles are named {names[-1]!r}.",
            where="edgec serve",
            why="requests name the model that is to answer",
            fix="serve one of them, or export again with another --out",
            code="E639",
        )


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens, closed at the end.

    Raises:
        InputError: E631.
    """
    if not 0 <= port <= _HIGHEST:
        raise _unbound(host, port, f"ports are 0 to {_HIGHEST}")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
    except (OSError, OverflowError, UnicodeError) as cause:
        raise _unbound(host, port, str(cause)) from cause
    with listening:
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            listening.listen(_BACKLOG)
        except (OSError, OverflowError) as cause:
            used = getattr(cause, "errno", None) == errno.EADDRINUSE
            raise _unbound(host, port, "another program listens there" if used else str(cause)) from cause
        yield listening


def _unbound(host: str, port: int, why: str) -> InputError:
    what, fix = "The port cannot be used.", "choose another --port (0 for any free one) or --host"
    return InputError(what, f"{host}:{port}", why, fix, "E631")


def address_of(listening: socket.socket) -> str:
    """The address of the API, for clients."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
