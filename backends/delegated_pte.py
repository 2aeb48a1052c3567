"""Export, report and layout for the backends that delegate a .pte to a phone's accelerator."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.export import ExportedProgram
from torch.fx import Node

from edgec.backends.cpu.regions.delegation import work_of
from edgec.backends.cpu.rewrites.norms import write_out_norms
from edgec.backends.cpu.static_lowering import delegate_graphs, operators
from edgec.bundle.findings import Delegation, Fallback
from edgec.bundle.pte_layout import DELEGATE, ArtifactLayout, read_layout
from edgec.ir.program import Program
from edgec.ir.reexport import reexport
from edgec.ir.static_methods import DECODE
from edgec.passes.contract import clean, clone


def delegated_export(program: Program) -> ExportedProgram:
    """The exported program of a copy whose norms are written out, since no delegate has edgec's kernels."""
    graph = clone(program.graph)
    write_out_norms(graph, every=True)
    clean(graph)
    return reexport(graph, program.interface)


def delegated_operators(lowered: Any, backend: str, reason: str) -> tuple[Delegation, tuple[str, ...]]:
    """Count the operators inside and outside the delegates, and list the kernels that the outside needs.

    Args:
        lowered: ExecuTorch's edge program manager after lowering.
        backend: as the manifest names it.
        reason: why an operator stays outside.

    Returns:
        Counts over all methods, with shares of the arithmetic of one decoded token, or of all methods where none
        decodes; and the outside's operators by name.
    """
    graphs = {name: lowered.exported_program(name).graph_module for name in sorted(lowered.methods)}
    outside = Counter(_kind(node) for graph in graphs.values() for node in operators(graph))
    measured = [graphs[DECODE]] if DECODE in graphs else [*graphs.values()]
    spent = Counter[str]()
    for node in (node for graph in measured for node in operators(graph)):
        spent[_kind(node)] += _operations(node)
    bodies = [body for graph in graphs.values() for body in delegate_graphs(graph)]
    inside = sum(_operations(n) for graph in measured for body in delegate_graphs(graph) for n in operators(body))
    total = (inside + spent.total()) or 1
    delegation = Delegation(
        backend=backend,
        delegates=len(bodies),
        delegated_operators=sum(len(operators(body)) for body in bodies),
        delegated_share=inside / total if inside or outside else 1.0,
        fallbacks=[
            Fallback(operator=name, count=outside[name], reason=reason, share=spent[name] / total)
            for name in sorted(outside, key=lambda name: (-spent[name], -outside[name], name))
        ],
    )
    return delegation, tuple(sorted(outside))


def _kind(node: Node) -> str:
    """An operator as ExecuTorch's own report names it: ``aten_cat_default``."""
    return re.sub(r"_\d+$", "", node.name)


def _operations(node: Node) -> int:
    """The multiply-accumulates of a product; of anything else the values that it writes."""
    work = work_of(node, context=1)
    return work.operations if work else 0


def delegated_layout(path: Path) -> ArtifactLayout:
    """Where the bytes of a .pte lie whose delegates are graphs; a delegate's blob counts as its graph."""
    whole = read_layout(path)
    blobs = [run for run in whole.stored if run.place == DELEGATE]
    graphs = whole.graph_bytes + sum(run.bytes for run in blobs)
    return replace(whole, graph_bytes=graphs, stored=tuple(run for run in whole.stored if run not in blobs))
