"""A phone on this machine's loopback: our own adb daemon, a folder as its storage, and faults on demand."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.devices.phone.faults import Faults
from tests.devices.phone.shell_service import ShellService
from tests.devices.phone.sync_service import SyncService
from tests.devices.phone.wire import FEATURES, Connection, Service, Stream

COMMANDS = Path(__file__).parent / "commands"
STORAGE = "data/local/tmp"
LOADER = "./ld-linux-aarch64.so.1"
PROPERTIES = {
    "ro.product.model": "Loopback",
    "ro.product.manufacturer": "edgec",
    "ro.soc.model": "QEMU",
    "ro.build.version.release": "15",
    "ro.build.version.sdk": "35",
    "ro.product.cpu.abi": "arm64-v8a",
    "ro.boot.qemu": "1",
}
BATTERY = "Current Battery Service state:\n  AC powered: false\n  USB powered: true\n  level: 88\n  temperature: 301\n"
THERMAL = (
    "Thermal Status: {status}\nCurrent temperatures from HAL:\n\tTemperature{{mValue={skin}, mType=3, mName=skin}}\n"
)


class LoopbackPhone:
    """The loopback phone; its storage is ``folder/data/local/tmp``, its commands' answers lie in ``folder/says``."""

    def __init__(self, folder: Path, faults: Faults | None = None, port: int = 0) -> None:
        self.folder, self.faults = folder, faults or Faults()
        self.storage, self.says = folder / STORAGE, folder / "says"
        self.storage.mkdir(parents=True, exist_ok=True)
        self.says.mkdir(exist_ok=True)
        self.set_properties()
        self.set_heat()
        (self.says / "dumpsys-battery").write_text(BATTERY)
        (self.says / "dumpsys-power").write_text("  mWakefulness=Awake\n")
        self.port = port
        self._connections: set[Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None

    @property
    def serial(self) -> str:
        return f"127.0.0.1:{self.port}"

    def set_properties(self, **changed: str) -> None:
        """Set properties of the phone, like ``ro_boot_qemu='0'``."""
        properties = PROPERTIES | {name.replace("_", "."): value for name, value in changed.items()}
        (self.says / "properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    def set_heat(self, skin: float = 31.2, status: int = 0) -> None:
        (self.says / "dumpsys-thermalservice").write_text(THERMAL.format(skin=skin, status=status))

    def left_behind(self) -> list[str]:
        """The names of files left in the phone's storage."""
        return sorted(path.name for path in self.storage.iterdir())

    @contextmanager
    def plugged_in(self) -> Iterator[LoopbackPhone]:
        ready = threading.Event()
        thread = threading.Thread(target=self._serve, args=(ready,), daemon=True)
        thread.start()
        ready.wait(10)
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._unplug, True)
            thread.join(10)

    def unplug(self) -> None:
        """Pull the cable for good."""
        self._loop.call_soon_threadsafe(self._unplug, False)

    def plug_in(self) -> None:
        """Put the cable back."""
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def _serve(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        ready.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        banner = f"device::ro.product.name=edgec;ro.product.model=Loopback;ro.product.device=loop;features={FEATURES}"
        connection = Connection(reader, writer, banner, not self.faults.unauthorised, self._service)
        self._connections.add(connection)
        try:
            await connection.serve()
        finally:
            self._connections.discard(connection)

    def _unplug(self, stop: bool) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.cut()
        if stop:
            self._loop.call_later(0.05, self._loop.stop)

    def _cut(self) -> None:
        if self.faults.gone and self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.cut()

    def _service(self, name: str, stream: Stream) -> Service | None:
        if name == "sync:":
            return SyncService(stream, self._local, self.faults, self._cut).serve()
        shell = re.fullmatch(r"shell,v2[^:]*:(.*)", name, re.DOTALL)
        if shell is None:
            return None
        script = shell[1].replace(f"/{STORAGE}", str(self.storage)).replace(LOADER, f"qemu-aarch64 {LOADER}")
        environment = os.environ | {"PATH": f"{COMMANDS}:{os.environ['PATH']}", "PHONE_SAYS": str(self.says)}
        return ShellService(stream, script, self.faults, self._cut).serve(self.storage, environment)

    def _local(self, path: str) -> Path:
        return self.folder / path.lstrip("/")
