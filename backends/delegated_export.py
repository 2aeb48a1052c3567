"""A graph as torch.export's program for a delegate of the phone: no norm needs edgec's kernels."""

from __future__ import annotations

from torch.export import ExportedProgram

from edgec.backends.xnnpack.norms import write_out_norms
from edgec.ir.program import Program
from edgec.ir.reexport import reexport
from edgec.passes.contract import clean, clone


def delegated_export(program: Program) -> ExportedProgram:
    """The exported program of a copy whose norms are written out; ``program`` stays as it is."""
    graph = clone(program.graph)
    write_out_norms(graph, every=True)
    clean(graph)
    return reexport(graph, program.interface)
