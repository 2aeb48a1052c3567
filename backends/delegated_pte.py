"""Export, report and layout for the backends that delegate a .pte to a phone's accelerator."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.export import ExportedProgram

from edgec.backends.cpu.rewrites.norms import write_out_norms
from edgec.bundle.findings import Delegation, Fallback
from edgec.bundle.pte_layout import DELEGATE, ArtifactLayout, read_layout
from edgec.ir.program import Program
from edgec.ir.reexport import reexport
from edgec.passes.contract import clean, clone

# Picks one of a delegate's results; it is not an operator that computes.
_RESULT = "getitem"


def delegated_export(program: Program) -> ExportedProgram:
    """The exported program of a copy whose norms are written out, since no delegate has edgec's kernels."""
    graph = clone(program.graph)
    write_out_norms(graph, every=True)
    clean(graph)
    return reexport(graph, program.interface)


def delegated_operators(lowered: Any, backend: str, reason: str) -> tuple[Delegation, tuple[str, ...]]:
    """Count the operators inside and outside the delegates, and list the kernels that the outside needs.

    Args:
        lowered: ExecuTorch's edge program manager after lowering; the share counts operators, not their work.
        backend: as the manifest names it.
        reason: why an operator stays outside.
    """
    from executorch.devtools.backend_debug import get_delegation_info

    infos = [get_delegation_info(lowered.exported_program(name).graph_module) for name in sorted(lowered.methods)]
    outside: Counter[str] = Counter()
    for info in infos:
        counts = {name: each.non_delegated for name, each in info.delegation_by_operator.items() if name != _RESULT}
        outside.update({name: count for name, count in counts.items() if count})
    within = sum(info.num_delegated_nodes for info in infos)
    total = (within + sum(outside.values())) or 1
    delegation = Delegation(
        backend=backend,
        delegates=sum(info.num_delegated_subgraphs for info in infos),
        delegated_operators=within,
        delegated_share=within / total,
        fallbacks=[
            Fallback(operator=name, count=count, reason=reason, share=count / total)
            for name, count in outside.most_common()
        ],
    )
    return delegation, tuple(sorted(outside))


def delegated_layout(path: Path) -> ArtifactLayout:
    """Where the bytes of a .pte lie whose delegates are graphs; a delegate's blob counts as its graph."""
    whole = read_layout(path)
    blobs = [run for run in whole.stored if run.place == DELEGATE]
    graphs = whole.graph_bytes + sum(run.bytes for run in blobs)
    return replace(whole, graph_bytes=graphs, stored=tuple(run for run in whole.stored if run not in blobs))
