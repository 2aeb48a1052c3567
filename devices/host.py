"""This machine as a device: facts from /proc and /sys, jobs in fresh Python processes."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from edgec.devices.transport import Address, Conditions, DeviceFacts, Say
from edgec.errors import BudgetError, EdgecError, InputError, ToolError
from edgec.processor import CPUINFO, processor_name

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle

CPU0 = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
THERMAL = Path("/sys/class/thermal")
CLASSES: dict[int, type[EdgecError]] = {1: InputError, 2: BudgetError, 3: ToolError}


class HostTransport:
    """Runs jobs on this machine, in Python. Nothing is pushed, and its heat is recorded but not waited for."""

    simulated = whole_runs = False

    def __init__(
        self,
        address: Address = Address("host"),
        conditions: Conditions | None = None,
        say: Say | None = None,
    ) -> None:
        """Keep the address; conditions and ``say`` have no meaning on this machine."""
        self.address = address

    def facts(self) -> DeviceFacts:
        """Read the machine's facts now."""
        return DeviceFacts(
            system=f"{platform.system()} {platform.release()} {platform.machine()}",
            cpu=processor_name(),
            cores=os.cpu_count() or 1,
            memory_bytes=psutil.virtual_memory().total,
            governor=_text(CPU0),
            clock_mhz=_clock_mhz(),
            load_average=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            temperature_c=_hottest(),
        )

    def check(self, bundle: Bundle) -> None:
        """Refuse a bundle that only an interpreter can execute here."""
        from edgec.devices.simulators import refuse_as_speed

        refuse_as_speed(bundle.manifest)

    def close(self) -> None:
        """Do nothing, since there is nothing to remove."""

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Run a job in a fresh process; its result or its error comes back as JSON."""
        command = [sys.executable, "-m", "edgec.runtime_py.bench.job"]
        done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=False)
        try:
            answer = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError) as cause:
            raise died("measuring process", job, done) from cause
        if "error" in answer:
            fields = answer["error"]
            texts = {name: fields[name] for name in ("what", "where", "why", "fix", "code")}
            raise CLASSES.get(fields["exit_code"], EdgecError)(**texts)
        return dict(answer["result"])


def died(process: str, job: Mapping[str, Any], done: subprocess.CompletedProcess[str]) -> ToolError:
    """E321: a process ended without answering its job."""
    return ToolError(
        f"The {process} ended without a result.",
        where=f"job {job.get('kind')!r}",
        why=f"exit status {done.returncode}: {' '.join(done.stderr.splitlines()[-2:])}"[:400],
        fix="a negative status is a signal: -9 usually means that memory ran out",
        code="E321",
    )


def _clock_mhz() -> float | None:
    clocks = re.findall(r"^cpu MHz\s*:\s*([\d.]+)$", _text(CPUINFO) or "", re.MULTILINE)
    return max(map(float, clocks)) if clocks else None


def _hottest() -> float | None:
    readings = [_text(zone) for zone in THERMAL.glob("thermal_zone*/temp")]
    degrees = [int(reading) / 1000 for reading in readings if reading and reading.lstrip("-").isdigit()]
    return max(degrees, default=None)


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
