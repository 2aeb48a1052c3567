r"""The phone's runner executed on this machine by qemu's user mode: results are real, times are not.

How a transport uses it::

    build = build_runner(abi=ARM64)                                  # compiled once, kept in the cache folder
    line = qemu_line(build, ["--bundle", "NAME.edgec", "--packed", "FOLDER", "--threads", "2"])
    done = subprocess.run(line, input="generate 16 1 2 3\n", capture_output=True, text=True)
    events = [json.loads(row) for row in done.stdout.splitlines()]   # docs/runner.md

On a phone the same files lie in one folder and ``start_line(FOLDER, ARM64)`` starts them, so only the first word of the
line differs. An emulator slows some instructions more than others, so its times say nothing about a phone: every record
is marked ``simulated`` and no speed is made of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from edgec.devices.runner.build import RunnerBuild, start_line
from edgec.errors import ToolError

EMULATOR = "qemu-aarch64"
# A phone's core with dotprod and fp16. Of qemu's "max", which has all there is, the runner hides SME from XNNPACK.
CPU = "cortex-a76"


def qemu_line(build: RunnerBuild, arguments: Sequence[str] = (), cpu: str = CPU) -> list[str]:
    """The words that run the arm64 runner here.

    Args:
        build: of the ABI ``arm64``.
        arguments: the runner's own, as on a phone. Packed weights are of one ``cpu``: each needs a folder of its own.
        cpu: qemu's name of the processor, which decides what kernels XNNPACK chooses.

    Raises:
        ToolError: E572, there is no qemu.
    """
    return [str(find_emulator()), "-cpu", cpu, *start_line(str(build.folder), build.abi), *arguments]


def find_emulator() -> Path:
    """Where ``qemu-aarch64`` lies.

    Raises:
        ToolError: E572.
    """
    found = shutil.which(EMULATOR) or shutil.which(f"{EMULATOR}-static")
    if found is not None:
        return Path(found)
    raise ToolError(
        "There is no emulator for arm64 programs.",
        where="PATH",
        why=f"looked for {EMULATOR}",
        fix="Debian: apt install qemu-user",
        code="E572",
    )
