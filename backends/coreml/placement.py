"""Where an artifact's arithmetic runs: inside Core ML, or outside, and why. Which unit takes it only a device tells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgec.backends.coreml.interpreter.graph import read_graph
from edgec.backends.coreml.interpreter.proto import read_spec
from edgec.backends.delegated_pte import delegated_operators
from edgec.bundle.manifest import Delegation

_OUTSIDE = "coremltools has no form for it; ExecuTorch's CPU kernel runs it, and Core ML is left and entered again"


def inside(packages: Sequence[Path]) -> Delegation:
    """The delegation of packages: Core ML runs each as a whole.

    Args:
        packages: the folders NAME.mlpackage.
    """
    functions = [f for package in packages for f in read_spec(package).mlProgram.functions.values()]
    return Delegation(
        backend="coreml",
        delegates=len(packages),
        delegated_operators=sum(len(read_graph(function).steps) for function in functions),
        delegated_share=1.0,
        fallbacks=[],
    )


def outside(lowered: Any) -> tuple[Delegation, tuple[str, ...]]:
    """What ExecuTorch's partitioner left outside Core ML, with the kernels that needs.

    Args:
        lowered: ExecuTorch's edge program manager after lowering; the share counts operators, not their work.
    """
    return delegated_operators(lowered, "coreml", _OUTSIDE)
