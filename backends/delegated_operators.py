"""What ExecuTorch's partitioner took into a delegate and what it left outside: one count for every backend."""

from __future__ import annotations

from collections import Counter
from typing import Any

from edgec.bundle.manifest import Delegation, Fallback

# How a delegate's results are told apart: no operator of its own.
_RESULT = "getitem"


def delegated_operators(lowered: Any, backend: str, reason: str) -> tuple[Delegation, tuple[str, ...]]:
    """What is inside and outside the delegates, and the kernels that the outside needs.

    Args:
        lowered: ExecuTorch's edge program manager after lowering; the share counts operators, not their work.
        backend: as the manifest names it.
        reason: why an operator stays outside.
    """
    from executorch.devtools.backend_debug import get_delegation_info

    found = [get_delegation_info(lowered.exported_program(name).graph_module) for name in sorted(lowered.methods)]
    outside: Counter[str] = Counter()
    for info in found:
        counts = {name: each.non_delegated for name, each in info.delegation_by_operator.items() if name != _RESULT}
        outside.update({name: count for name, count in counts.items() if count})
    within = sum(info.num_delegated_nodes for info in found)
    total = (within + sum(outside.values())) or 1
    delegation = Delegation(
        backend=backend,
        delegates=sum(info.num_delegated_subgraphs for info in found),
        delegated_operators=within,
        delegated_share=within / total,
        fallbacks=[
            Fallback(operator=name, count=count, reason=reason, share=count / total)
            for name, count in outside.most_common()
        ],
    )
    return delegation, tuple(sorted(outside))
