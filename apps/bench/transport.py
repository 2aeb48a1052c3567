"""Measuring on iPhones and simulators: the bundle's bench app measures the whole run and writes a result file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from edgec.apps.bench.built_app import BenchApp, bench_app, package_of
from edgec.devices.answers import plain
from edgec.devices.apple.iphone import Iphone
from edgec.devices.apple.phone import Phone
from edgec.devices.apple.pymobiledevice import PyMobileDevicePhone
from edgec.devices.apple.simulator import Simulator
from edgec.devices.apple.xcrun import CALL_S, has_xcode
from edgec.devices.stopping import Stop
from edgec.devices.transport import Address, Conditions, DeviceFacts, Say
from edgec.errors import EdgecError, InputError

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle

JOB, RESULT, ERROR = "job.json", "result.jsonl", "error.txt"
LOADS = 3
POLL_S = 5.0


class AppTransport:
    """A transport to a device whose bench app measures the whole run; ``phone`` reaches the device."""

    whole_runs = True

    def __init__(self, address: Address, conditions: Conditions, say: Say, phone: Phone) -> None:
        """Prepare the transport; the device is not contacted yet."""
        self.address, self._conditions, self._say, self._phone = address, conditions, say, phone
        self.simulated = phone.simulated
        self._folder = TemporaryDirectory(prefix="edgec-app-")
        self._app: BenchApp | None = None
        self._stopping = Stop()

    def facts(self) -> DeviceFacts:
        """The facts known about the device from here."""
        return self._phone.facts()

    def check(self, bundle: Bundle) -> None:
        """Refuse a bundle of which no app can be made, then a device that is not ready."""
        package = package_of(bundle)
        self._phone.ready(package.minimum_os)

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Build and install the app, give it the job, wait for its result.

        Raises:
            InputError: E558, the app ended without a result; E553 to E557.
        """
        from edgec.bundle.folder import open_bundle

        package = package_of(open_bundle(Path(job["bundle"]), check_files=False))
        self._say(f"building the bench app for {self.address}")
        app = bench_app(package, self._phone.sdk, Path(self._folder.name), str(self.address))
        with self._stopping.working(str(self.address)):
            lines = self._measured(job, app).split("\n")
        return {"records": [line for line in lines if line.strip()]}

    def _measured(self, job: Mapping[str, Any], app: BenchApp) -> str:
        self._say(f"installing it on {self.address}")
        # Known to ``close`` before it is installed, since a failed installation may leave the app.
        self._app = app
        self._phone.install(app.path)
        for name, text in ((RESULT, "\n"), (ERROR, "\n"), (JOB, json.dumps(self._job(job)))):
            source = Path(self._folder.name) / name
            source.write_text(text)
            self._stopping.check(str(self.address))
            self._phone.write(app.app_id, name, source)
        self._phone.launch(app.app_id)
        return self._awaited(app.app_id, self._conditions.whole_job_s(job))

    def close(self) -> None:
        """End another thread's waiting, then remove the app and its files; a call under way ends first."""
        self._stopping.set()
        with self._stopping.idle(CALL_S):
            with suppress(EdgecError):
                if self._app is not None and not self._conditions.keep:
                    self._phone.uninstall(self._app.app_id)
            self._app = None
            self._folder.cleanup()

    def _job(self, job: Mapping[str, Any]) -> dict[str, Any]:
        from edgec.installation import __version__

        names = ("prompt_tokens", "new_tokens", "warmups", "repetitions")
        own = {"device": str(self.address), "loads": LOADS, "sustained_seconds": job["seconds"]}
        return {**own, **{name: job[name] for name in names}, "edgec_version": __version__}

    def _awaited(self, app_id: str, limit_s: float) -> str:
        """Wait for the result file, which the app writes whole or not at all."""
        start = time.monotonic()
        while (waited := time.monotonic() - start) <= limit_s:
            if (result := self._phone.read(app_id, RESULT)).strip():
                return result
            if (said := self._phone.read(app_id, ERROR)).strip():
                raise _failed(str(self.address), plain(said, 300))
            self._say(f"the app on {self.address}, {waited:.0f} s so far")
            self._stopping.pause(POLL_S, str(self.address))
        raise _failed(str(self.address), f"no result came within {limit_s:g} s; the screen may have turned off")


def _failed(where: str, why: str) -> InputError:
    fix = "keep the phone unlocked with the app in front, close other apps, and run again"
    return InputError("The bench app ended without a result.", where, why, fix, "E558")


def iphone_transport(address: Address, conditions: Conditions, say: Say) -> AppTransport:
    """The transport to an iPhone, through Xcode where it is installed, else through pymobiledevice3."""
    kind: Callable[[str], Phone] = Iphone if has_xcode() else PyMobileDevicePhone
    return AppTransport(address, conditions, say, kind(str(address.name)))


def simulator_transport(address: Address, conditions: Conditions, say: Say) -> AppTransport:
    """The transport to a simulator on this Mac."""
    return AppTransport(address, conditions, say, Simulator(str(address.name)))
