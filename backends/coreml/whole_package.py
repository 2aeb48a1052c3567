"""The format ``mlpackage`` for GPUs: one package, whatever its size; only the Neural Engine's compiler has a limit."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from edgec.backends.coreml import mlpackage
from edgec.backends.static_artifact import LoweringProgress, StaticArtifact
from edgec.ir.program import Program

EXECUTED_BY = mlpackage.EXECUTED_BY
execute, layout = mlpackage.execute, mlpackage.layout


def lower(methods: Mapping[str, Program], path: Path, progress: LoweringProgress) -> StaticArtifact:
    """Write a package with a function for each method.

    Raises:
        InputError: E404, coremltools cannot convert an operator.
    """
    return mlpackage.lower(methods, path, progress, part_bytes=sys.maxsize)
