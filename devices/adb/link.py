"""One phone through adb's server: services opened with a time limit, failures as typed errors."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgec.devices.adb.faults import ConnectionLost, hung, lost, no_adb, refusal
from edgec.devices.stopping import Stop, stopped
from edgec.errors import EdgecError

if TYPE_CHECKING:
    from adbutils import AdbClient

ANSWER_S = 30.0
CONNECT_S = 1.0
BACK_S = 20.0
_POLL_S = 0.5
_STDOUT, _STDERR, _EXIT = 1, 2, 3


@dataclass(frozen=True)
class Output:
    """What a command on the phone wrote, and its exit status."""

    status: int
    stdout: str
    stderr: str


def client() -> AdbClient:
    """The server of adb, started when it does not run.

    Raises:
        ToolError: E540.
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
    """The library would start it too, but with its words on our stdout."""
    from adbutils import adb_path

    try:
        socket.create_connection((host, port), timeout=CONNECT_S).close()
    except OSError:
        subprocess.run([adb_path(), "start-server"], capture_output=True, timeout=ANSWER_S, check=False)


class Link:
    """A phone by its serial number."""

    def __init__(self, serial: str) -> None:
        """Nothing is opened yet.

        Raises:
            ToolError: E540.
        """
        self.serial, self.where = serial, f"adb:{serial}"
        self.stopping, self._open = Stop(), set[socket.socket]()
        self._client = client()

    def stop(self) -> None:
        """End what runs over this link, in whatever thread: it ends with E566, and so does all that would begin."""
        self.stopping.set()
        for opened in list(self._open):
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)

    def afresh(self) -> Link:
        """Another link to the same phone, which is not stopped."""
        return Link(self.serial)

    @contextmanager
    def service(self, name: str, silence_s: float = ANSWER_S) -> Iterator[Any]:
        """A connection to a service of the phone's adb daemon.

        Args:
            name: like ``sync:`` or ``shell,v2,raw:COMMAND``.
            silence_s: the longest wait for the next bytes.

        Raises:
            InputError: E541 to E544, E566.
        """
        with self._typed(silence_s), self._connection(silence_s) as connection:
            connection.send_command(name)
            connection.check_okay()
            yield connection

    @contextmanager
    def _connection(self, silence_s: float) -> Iterator[Any]:
        """One that ``stop`` knows. It is asked behind the registration: a stop comes before or finds it."""
        self.stopping.check(self.where)
        connection = self._client.device(self.serial).open_transport(timeout=silence_s)
        opened: socket.socket = connection.conn
        self._open.add(opened)
        try:
            self.stopping.check(self.where)
            yield connection
        finally:
            self._open.discard(opened)
            connection.close()

    @contextmanager
    def _typed(self, silence_s: float) -> Iterator[None]:
        from adbutils.errors import AdbError

        try:
            yield
        except (AdbError, OSError, EOFError) as cause:
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
        self, script: str, silence_s: float = ANSWER_S, on_output: Callable[[bytes], None] = lambda data: None
    ) -> Output:
        """Run a shell script on the phone.

        Args:
            script: already quoted.
            silence_s: the longest time without output.
            on_output: given each piece of stdout as it comes.

        Raises:
            InputError: E541 to E544.
        """
        written = {_STDOUT: bytearray(), _STDERR: bytearray()}
        with self.service(f"shell,v2,raw:{script}", silence_s) as connection:
            while True:
                kind, size = connection.read_exact(1)[0], int.from_bytes(connection.read_exact(4), "little")
                data = connection.read_exact(size) if size else b""
                if kind == _EXIT:
                    break
                if kind in written:
                    written[kind] += data
                if kind == _STDOUT:
                    on_output(data)
        stdout, stderr = (bytes(written[kind]).decode(errors="replace") for kind in (_STDOUT, _STDERR))
        return Output(data[0] if data else 255, stdout, stderr)

    def state(self) -> str:
        """``device``, ``offline``, ``unauthorized``, or ``absent``."""
        with self._typed(ANSWER_S):
            return next((d.state for d in self._client.list() if d.serial == self.serial), "absent")

    def wait_back(self) -> bool:
        """Wait ``BACK_S`` until a lost phone answers again; phones on the network are connected anew."""
        deadline = time.monotonic() + BACK_S
        while time.monotonic() < deadline:
            with suppress(EdgecError):
                self._reconnect()
                if self.shell("echo back", ANSWER_S).stdout.strip() == "back":
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
        """A dead entry of a network phone stays ``offline`` until it is disconnected."""
        if ":" not in self.serial or self.state() == "device":
            return
        with self._typed(ANSWER_S):
            self._client.disconnect(self.serial)
            self._client.connect(self.serial, timeout=ANSWER_S)
            with suppress(Exception):
                self._client.wait_for(self.serial, timeout=2.0)


def retried(link: Link, attempts: int, work: Callable[[], None]) -> None:
    """Do work that can be done again, and do it again where the phone was lost meanwhile and came back.

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
