"""Where an artifact's arithmetic runs: inside Core ML, or outside, and why. Which unit takes it only a device tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgec.backends.coreml.interpreter.graph import read_graph
from edgec.backends.coreml.interpreter.proto import read_spec
from edgec.exporter.bundle.manifest import Delegation, Fallback

# How a delegate's results are told apart: no operator of its own.
_RESULT = "getitem"
_OUTSIDE = "coremltools has no form for it; ExecuTorch's CPU kernel runs it, and Core ML is left and entered again"


def inside(packages: Sequence[Path]) -> Delegation:
    """A package is Core ML's as a whole, and so are several.

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
    from executorch.devtools.backend_debug import get_delegation_info

    found = [get_delegation_info(lowered.exported_program(name).graph_module) for name in sorted(lowered.methods)]
    counts: Counter[str] = Counter()
    for info in found:
        found_outside = {k: v.non_delegated for k, v in info.delegation_by_operator.items() if k != _RESULT}
        counts.update({name: count for name, count in found_outside.items() if count})
    within = sum(info.num_delegated_nodes for info in found)
    total = (within + sum(counts.values())) or 1
    delegation = Delegation(
        backend="coreml",
        delegates=sum(info.num_delegated_subgraphs for info in found),
        delegated_operators=within,
        delegated_share=within / total,
        fallbacks=[Fallback(operator=k, count=v, reason=_OUTSIDE, share=v / total) for k, v in counts.most_common()],
    )
    return delegation, tuple(sorted(counts))
