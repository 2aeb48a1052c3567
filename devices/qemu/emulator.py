r"""Running the phone's arm64 runner on this machine in qemu's user mode: results are real, times are not.

How a transport uses it::

    build = build_runner(abi=ARM64)                                  # compiled once, kept in the cache folder
    line = qemu_line(build, ["--bundle", "NAME.edgec", "--packed", "FOLDER", "--threads", "2"])
    done = subprocess.run(line, input="generate 16 1 2 3\n", capture_output=True, text=True)
    events = [json.loads(row) for row in done.stdout.splitlines()]   # docs/runner.md

On a phone the same files lie in one folder and ``start_line(FOLDER, ARM64)`` starts them, so only the first word of the
line differs. An emulator slows some instructions more than others, so its times say nothing about a phone: every record
is marked ``simulated`` and no speed is computed from it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from edgec.engine.compile.build import RunnerBuild, start_line
from edgec.errors import ToolError

EMULATOR = "qemu-aarch64"
# A phone's core with dotprod and fp16. Of qemu's "max", which has all there is, the runner hides SME from XNNPACK.
CPU = "cortex-a76"


def qemu_line(build: RunnerBuild, arguments: Sequence[str] = (), cpu: str = CPU) -> list[str]:
    """The command line that runs the arm64 runner in qemu.

    Args:
        build: for the ABI ``arm64``.
        arguments: of the runner, as on a phone. Packed weights fit one ``cpu``: each ``cpu`` needs its own folder.
        cpu: qemu's name of the processor, which decides what kernels XNNPACK chooses.

    Raises:
        ToolError: E572, qemu is not installed.
    """
    return [str(find_emulator()), "-cpu", cpu, *start_line(str(build.folder), build.abi), *arguments]


def find_emulator() -> Path:
    """The path of ``qemu-aarch64``.

    Raises:
        ToolError: E572, it is not installed.
    """
    program = shutil.which(EMULATOR) or shutil.which(f"{EMULATOR}-static")
    if program is not None:
        return Path(program)
    raise ToolError(
        "No emulator for arm64 programs is installed.",
        where="PATH",
        why=f"looked for {EMULATOR}",
        fix="Debian: apt install qemu-user",
        code="E572",
    )
