"""Compile the engine as a separate stage where an export is the first to need it."""

from __future__ import annotations

from contextlib import suppress

from edgec.devices.runner.build import build_runner, find_build
from edgec.errors import ToolError
from edgec.exporter.progress import Progress, shares_with_engine


def compile_engine(progress: Progress) -> None:
    """Compile the engine unless it is compiled already, and report each file; afterwards the stage is ``resolve``.

    A machine that cannot compile it is left as it is: whether that is an error depends on the recipe's kernels.
    """
    if find_build() is not None:
        return
    progress.shares = shares_with_engine()
    progress.enter("engine", "compiling, once")
    with suppress(ToolError):
        build_runner(
            compiled=lambda done, files: progress.step(done / files, f"{done} of {files} files compiled, once")
        )
    progress.enter("resolve")
