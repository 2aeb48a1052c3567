"""The connection to one phone through adb's server: answers have limits of time and size, failures are typed errors."""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgec.devices.adb.faults import ConnectionLost, hung, lost, no_adb, refusal, too_much
from edgec.devices.answers import plain, printable
from edgec.devices.stopping import Stop, stopped
from edgec.errors import EdgecError

if TYPE_CHECKING:
    from adbutils import AdbClient

ANSWER_S = 45.0
ANSWER_BYTES = 1 << 20
CONNECT_S = 1.0
BACK_S = 20.0
_POLL_S = 0.5
_PIECE = 64 * 1024
_STDOUT, _STDERR, _EXIT = 1, 2, 3


@dataclass(frozen=True)
class AnswerLimits:
    """How long and how large an answer may be.

    Attributes:
        silence_s: the longest time without progress; the whole time where nothing counts as progress.
        whole_s: the longest time in total; None: ``silence_s``.
        most_bytes: of stdout and stderr together.
    """

    silence_s: float
    whole_s: float | None = None
    most_bytes: int = ANSWER_BYTES

    def next_deadline(self, start: float) -> float:
        """The moment by which the next progress must come for an answer that began at ``start``."""
        whole_s = self.silence_s if self.whole_s is None else self.whole_s
        return min(time.monotonic() + self.silence_s, start + whole_s)


@dataclass(frozen=True)
class ShellOutput:
    """The output of a command on the phone, without terminal escapes, and its exit status."""

    status: int
    stdout: str
    stderr: str


def client() -> AdbClient:
    """A client of adb's server, which is started if it does not run.

    Raises:
        ToolError: E540, adb cannot be started.
    """
    try:
        from adbutils import AdbClient
    except ImportError as cause:
        raise no_adb(str(cause)) from cause
    made = AdbClient()
    try:
        _start_server(made.host, made.port)
        made.server_version()
    except Exception as cause:
        raise no_adb(f"{type(cause).__name__}: {cause}") from cause
    return made


def _start_server(host: str, port: int) -> None:
    """Start adb's server quietly; the library would start it too, but print its messages on our stdout."""
    from adbutils import adb_path

    try:
        socket.create_connection((host, port), timeout=CONNECT_S).close()
    except OSError:
        subprocess.run([adb_path(), "start-server"], capture_output=True, timeout=ANSWER_S, check=False)


def serials() -> list[str]:
    """The serial numbers of the phones that adb's server lists, whatever their state.

    Raises:
        ToolError: E540.
    """
    server = client()
    try:
        return [phone.serial for phone in server.list()]
    except Exception as cause:
        raise no_adb(plain(f"{type(cause).__name__}: {cause}")) from cause


class AdbLink:
    """The connection to a phone with a given serial number."""

    def __init__(self, serial: str) -> None:
        """Prepare the link; no connection is opened yet.

        Raises:
            ToolError: E540, adb cannot be started.
        """
        self.serial, self.where = serial, f"adb:{plain(serial)}"
        self.stopping, self._open = Stop(), set[socket.socket]()
        self._client = client()

    def stop(self) -> None:
        """End everything that runs over this link, in any thread, with E566; new calls end the same way."""
        self.stopping.set()
        for opened in list(self._open):
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)

    def afresh(self) -> AdbLink:
        """A new link to the same phone, not stopped."""
        return AdbLink(self.serial)

    @contextmanager
    def service(self, name: str, limit_s: float | None = None) -> Iterator[Any]:
        """A connection to a service of the phone's adb daemon.

        Args:
            name: like ``sync:`` or ``shell,v2,raw:COMMAND``.
            limit_s: the longest wait for the daemon to take it; None: ``ANSWER_S``.

        Raises:
            InputError: E541 to E544, E566.
        """
        limit_s = ANSWER_S if limit_s is None else limit_s
        with self._typed(limit_s), self._connection(limit_s) as connection:
            connection.send_command(name)
            connection.check_okay()
            yield connection

    @contextmanager
    def _connection(self, silence_s: float) -> Iterator[Any]:
        """A connection that ``stop`` can end; the flag is checked after registering, so that no stop is missed."""
        self.stopping.check(self.where)
        connection = self._client.make_connection(timeout=silence_s)
        opened: socket.socket = connection.conn
        self._open.add(opened)
        try:
            self.stopping.check(self.where)
            # The library's own way asks for the server's version first, on a second connection.
            connection.send_command(f"host:transport:{self.serial}")
            connection.check_okay()
            yield connection
        finally:
            self._open.discard(opened)
            # Closed here, since the library waits 10 ms before it closes a socket.
            opened.close()
            connection.close()

    @contextmanager
    def _typed(self, silence_s: float) -> Iterator[None]:
        from adbutils.errors import AdbError

        try:
            yield
        except (AdbError, OSError, EOFError, ValueError, subprocess.SubprocessError) as cause:
            raise self._fault(cause, silence_s) from cause

    def _fault(self, cause: Exception, silence_s: float) -> EdgecError:
        from adbutils.errors import AdbError, AdbTimeout

        if self.stopping:
            return stopped(self.where)
        if isinstance(cause, AdbTimeout | TimeoutError):
            return hung(self.where, silence_s)
        if isinstance(cause, AdbError):
            return refusal(str(cause), self.where)
        return lost(self.where, "" if isinstance(cause, EOFError) else str(cause))

    def shell(
        self, script: str, limits: AnswerLimits | None = None, progress: Callable[[bytes], bool] = lambda data: False
    ) -> ShellOutput:
        """Run a shell script on the phone.

        Args:
            script: already quoted.
            limits: None: ``ANSWER_S`` for all of the answer, ``ANSWER_BYTES``.
            progress: called with each piece of stdout as it comes; returns whether it counts as progress.

        Raises:
            InputError: E541 to E544, E575.
        """
        limits = limits or AnswerLimits(ANSWER_S)
        written = {_STDOUT: bytearray(), _STDERR: bytearray()}
        with self.service(f"shell,v2,raw:{script}", limits.silence_s) as connection:
            start = time.monotonic()
            deadline = limits.next_deadline(start)
            while True:
                kind, size = struct.unpack("<BI", exactly(connection, 5, deadline))
                if sum(map(len, written.values())) + size > limits.most_bytes:
                    raise too_much(self.where, limits.most_bytes)
                data = exactly(connection, size, deadline)
                if kind == _EXIT:
                    break
                if kind in written:
                    written[kind] += data
                if kind == _STDOUT and progress(data):
                    deadline = limits.next_deadline(start)
        stdout, stderr = (printable(bytes(written[kind]).decode(errors="replace")) for kind in (_STDOUT, _STDERR))
        return ShellOutput(data[0] if data else 255, stdout, stderr)

    def state(self) -> str:
        """The phone's state on adb: ``device``, ``offline``, ``unauthorized``, or ``absent``."""
        with self._typed(ANSWER_S):
            return next((d.state for d in self._client.list() if d.serial == self.serial), "absent")

    def wait_back(self) -> bool:
        """Wait ``BACK_S`` for a lost phone to answer again; phones on the network are reconnected."""
        deadline = time.monotonic() + BACK_S
        while time.monotonic() < deadline:
            with suppress(EdgecError):
                self._reconnect()
                if self.shell("echo back").stdout.strip() == "back":
                    return True
            self.stopping.pause(_POLL_S, self.where)
        return False

    def ready(self) -> None:
        """Connect a phone on the network, and refuse one that cannot be used.

        Raises:
            InputError: E541 to E543.
        """
        if ":" in self.serial and self.state() in ("absent", "offline"):
            self._reconnect()
        state = self.state()
        if state != "device":
            raise refusal("not found" if state == "absent" else state, self.where)

    def _reconnect(self) -> None:
        """Reconnect a network phone; a dead entry stays ``offline`` until it is disconnected."""
        if ":" not in self.serial or self.state() == "device":
            return
        with self._typed(ANSWER_S):
            self._client.disconnect(self.serial)
            self._client.connect(self.serial, timeout=ANSWER_S)
            with suppress(Exception):
                self._client.wait_for(self.serial, timeout=2.0)


def exactly(connection: Any, count: int, deadline: float) -> bytes:
    """Read exactly ``count`` bytes from a connection.

    Raises:
        TimeoutError: they did not all come before the deadline, however slowly they trickle in.
        EOFError: the connection ended before them.
    """
    data = bytearray()
    while len(data) < count:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        connection.conn.settimeout(left_s)
        piece = connection.conn.recv(min(_PIECE, count - len(data)))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def retried(link: AdbLink, attempts: int, work: Callable[[], None]) -> None:
    """Do repeatable work, and repeat it where the phone was lost meanwhile and came back.

    Raises:
        EdgecError: the work's own, or E543 when the phone did not come back.
    """
    for attempt in range(attempts):
        try:
            return work()
        except ConnectionLost:
            if attempt + 1 == attempts or not link.wait_back():
                raise
    return None
