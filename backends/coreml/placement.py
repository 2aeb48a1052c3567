"""Where a Core ML package's arithmetic runs, as far as that can be known without a device."""

from __future__ import annotations

from pathlib import Path

from edgec.backends.coreml.interpreter.graph import read_graph
from edgec.backends.coreml.interpreter.proto import read_spec
from edgec.exporter.bundle.manifest import Delegation


def inside(package: Path) -> Delegation:
    """Everything is inside Core ML; which of its units takes an operator only a device tells.

    Args:
        package: the folder NAME.mlpackage.
    """
    functions = read_spec(package).mlProgram.functions.values()
    return Delegation(
        backend="coreml",
        delegates=1,
        delegated_operators=sum(len(read_graph(function).steps) for function in functions),
        delegated_share=1.0,
        fallbacks=[],
    )
