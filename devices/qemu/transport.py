"""Measuring with the phone's runner under qemu on this machine: all but the speed is real, and every record says so."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from edgec.devices.host import HostTransport, died
from edgec.devices.qemu.emulator import find_emulator, qemu_line
from edgec.devices.runner.files import check_shell_artifact
from edgec.devices.runner.job import arguments, job_result, requests
from edgec.devices.transport import Address, Conditions, DeviceFacts, Say
from edgec.errors import InputError

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle
    from edgec.engine.compile.build import RunnerBuild


class QemuTransport:
    """A transport to the arm64 runner in qemu's user mode."""

    simulated, whole_runs = True, False

    def __init__(self, address: Address, conditions: Conditions, say: Say) -> None:
        """Find the emulator; the runner is not built yet.

        Raises:
            ToolError: E572, qemu is not installed.
        """
        find_emulator()
        self.address, self._conditions, self._say = address, conditions, say
        self._folder = TemporaryDirectory(prefix="edgec-qemu-")

    def facts(self) -> DeviceFacts:
        """This machine's memory and load, with an emulated processor."""
        here = HostTransport().facts()
        cpu = f"qemu-aarch64 on {here.cpu}"
        return replace(here, cpu=cpu, governor=None, clock_mhz=None, temperature_c=None, simulated=True)

    def check(self, bundle: Bundle) -> None:
        """Refuse a bundle that needs an app."""
        check_shell_artifact(bundle.manifest, str(self.address))

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Run the job in the emulator; packed weights stay in a folder of this transport."""
        from edgec.bundle.folder import open_bundle
        from edgec.devices.job import vocab_size

        bundle = open_bundle(Path(job["bundle"]), check_files=False)
        line = qemu_line(self._build, arguments(job, str(bundle.path.resolve()), job.get("adapter", "")))
        asked = requests(job, vocab_size(bundle))
        self._say(f"{job['kind']} under qemu")
        done = self._called(line, asked, self._conditions.whole_job_s(job))
        if done.returncode != 0:
            raise died("emulated runner", job, done)
        return job_result(job, done.stdout, str(self.address))

    def close(self) -> None:
        """Remove the packed weights."""
        self._folder.cleanup()

    @cached_property
    def _build(self) -> RunnerBuild:
        from edgec.engine.compile.abi import ARM64
        from edgec.engine.compile.build import build_runner

        return build_runner(announce=self._say, abi=ARM64)

    def _called(self, line: list[str], asked: str, limit_s: float) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                line, input=asked, capture_output=True, text=True, check=False, cwd=self._folder.name, timeout=limit_s
            )
        except subprocess.TimeoutExpired as cause:
            why = f"the emulated runner did not end within {limit_s:g} s"
            fix = "measure a smaller model, or fewer tokens, under qemu"
            raise InputError("The emulator does not answer.", str(self.address), why, fix, "E544") from cause
